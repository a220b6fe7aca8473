#include "launch/local_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "meshrt/failure.h"
#include "system/token.h"

namespace meshrt {

namespace {

Descriptor local_socket(int type) {
  Descriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (socket.get() < 0)
    throw Failure(Cause::environment, fmt::format("cannot make a socket: {}", std::strerror(errno)));
  return socket;
}

}  // namespace

// The first byte 0: no file.
LocalName::LocalName(const std::string& name) {
  address.sun_family = AF_UNIX;
  const std::string fits = name.size() < sizeof address.sun_path ? name : "meshrt-" + Token::from(name).text();
  std::memcpy(address.sun_path + 1, fits.data(), fits.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + fits.size());
}

Descriptor listen_under(const std::string& name, int type) {
  Descriptor socket = local_socket(type | SOCK_NONBLOCK);
  const LocalName at(name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) != 0) {
    if (errno == EADDRINUSE) return {};
    throw Failure(Cause::environment, fmt::format("cannot name a socket: {}", std::strerror(errno)));
  }
  if (listen(socket.get(), 1024) != 0)
    throw Failure(Cause::environment, fmt::format("cannot listen at a socket: {}", std::strerror(errno)));
  return socket;
}

Descriptor call_once(const std::string& name, int type) {
  Descriptor socket = local_socket(type);
  const LocalName at(name);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) != 0) return {};
  if (!is_of_this_user(socket.get()))
    throw Failure(Cause::environment, "another user of this host has taken the name of this job's socket");
  return socket;
}

ucred peer_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) peer.uid = static_cast<uid_t>(-1);
  return peer;
}

bool is_of_this_user(int socket) { return peer_of(socket).uid == geteuid(); }

}  // namespace meshrt
