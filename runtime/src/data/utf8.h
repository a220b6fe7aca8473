// utf8.h: whether bytes are text in UTF-8.
#pragma once
#include <cstddef>
#include <string_view>

namespace meshrt {

/// How many bytes from the beginning are whole characters in UTF-8 (RFC 3629: the shortest form, no surrogates, up to
/// U+10FFFF): all of them in a text that is.
inline size_t valid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  size_t at = 0;
  while (at < text.size()) {
    const unsigned first = byte(at), second = byte(at + 1);
    const size_t more = first < 0x80   ? 0
                        : first < 0xC2 ? 4
                        : first < 0xE0 ? 1
                        : first < 0xF0 ? 2
                        : first < 0xF5 ? 3
                                       : 4;
    const bool too_long = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool no_character = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
    if (more > 3 || too_long || no_character) break;
    for (size_t i = 1; i <= more; ++i)
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    at += more + 1;
  }
  return at;
}

}  // namespace meshrt
