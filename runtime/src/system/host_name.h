// host_name.h: what this host calls itself, for messages: never to be connected to (Debian's resolves to 127.0.1.1).
#pragma once
#include <unistd.h>

#include <array>
#include <string>

namespace meshrt {

inline std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace meshrt
