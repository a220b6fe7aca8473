// Characters of a UTF-8 text: reading one, and how wide it shows on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mesh {

struct Character {
  char32_t value = 0;
  std::size_t bytes = 1;
  bool valid = true;  // false: one byte that is not part of a character; its value is U+FFFD
};

// The character that starts at byte `at` of the text, which must be inside of it.
Character decode_utf8(std::string_view text, std::size_t at);

std::string encode_utf8(char32_t value);

// Columns of a terminal: 0 for combining marks, 2 for East Asian and emoji, else 1. A tab has no width of its own.
int display_width(char32_t value);
int display_width(std::string_view text);

// The text for a message: control characters and stray bytes as `\x07`.
std::string printable(std::string_view text);

}  // namespace mesh
