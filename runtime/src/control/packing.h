// packing.h: numbers and texts as the bytes of a message, and back. What comes in may be cut short or made up: an
// Unpacker gives nothing that was not there.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "meshrt/failure.h"

namespace meshrt {

class Packer {
 public:
  void number(int32_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void text(std::string_view s) {
    number(static_cast<int32_t>(s.size()));
    bytes_.append(s);
  }
  void numbers(const std::vector<int>& list) {
    number(static_cast<int32_t>(list.size()));
    for (const int n : list) number(n);
  }
  void texts(const std::vector<std::string>& list) {
    number(static_cast<int32_t>(list.size()));
    for (const std::string& s : list) text(s);
  }
  std::string bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Throws Failure (Cause::environment) when there is less than is asked for.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  int32_t number() {
    int32_t n = 0;
    std::memcpy(&n, take(sizeof n).data(), sizeof n);
    return n;
  }
  std::string text() { return std::string(take(number())); }
  std::vector<int> numbers() {
    std::vector<int> list;
    for (int32_t left = count(); left > 0; --left) list.push_back(number());
    return list;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> list;
    for (int32_t left = count(); left > 0; --left) list.push_back(text());
    return list;
  }

 private:
  std::string_view take(int64_t bytes) {
    if (bytes < 0 || bytes > static_cast<int64_t>(rest_.size()))
      throw Failure(Cause::environment, "a message between launchers is cut short, or of another version");
    const std::string_view part = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return part;
  }
  // Every element of a list has four bytes at least, so a made-up length ends at once.
  int32_t count() {
    const int32_t n = number();
    if (n < 0 || n > static_cast<int64_t>(rest_.size() / sizeof n)) take(-1);
    return n;
  }

  std::string_view rest_;
};

}  // namespace meshrt
