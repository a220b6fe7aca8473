#include "frontend/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mesh {

namespace {

struct Interval {
  char32_t first, last;
};

constexpr std::array<Interval, 8> no_width = {{{0x0300, 0x036F},
                                               {0x0483, 0x0489},
                                               {0x0591, 0x05BD},
                                               {0x200B, 0x200F},
                                               {0x20D0, 0x20FF},
                                               {0xFE00, 0xFE0F},
                                               {0xFE20, 0xFE2F},
                                               {0xFEFF, 0xFEFF}}};

constexpr std::array<Interval, 11> double_width = {{{0x1100, 0x115F},
                                                    {0x2E80, 0x303E},
                                                    {0x3041, 0x33FF},
                                                    {0x3400, 0x4DBF},
                                                    {0x4E00, 0x9FFF},
                                                    {0xA000, 0xA4CF},
                                                    {0xAC00, 0xD7A3},
                                                    {0xF900, 0xFAFF},
                                                    {0xFE30, 0xFE6F},
                                                    {0xFF00, 0xFF60},
                                                    {0x1F300, 0x3FFFD}}};

template <std::size_t n>
bool within(char32_t value, const std::array<Interval, n>& intervals) {
  for (const Interval& one : intervals) {
    if (value >= one.first && value <= one.last) return true;
  }
  return false;
}

}  // namespace

Character decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const Character broken{0xFFFD, 1, false};
  const unsigned char lead = byte(at);
  if (lead < 0x80) return Character{lead, 1, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + bytes > text.size()) return broken;
  char32_t value = lead & (0x7FU >> bytes);
  for (std::size_t next = 1; next < bytes; ++next) {
    if ((byte(at + next) & 0xC0) != 0x80) return broken;
    value = value << 6 | (byte(at + next) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (overlong || surrogate || value > 0x10FFFF) return broken;
  return Character{value, bytes, true};
}

std::string encode_utf8(char32_t value) {
  const auto byte = [](char32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  if (value < 0x80) return {byte(value)};
  if (value < 0x800) return {byte(0xC0 | value >> 6), byte(0x80 | (value & 0x3F))};
  if (value < 0x10000) {
    return {byte(0xE0 | value >> 12), byte(0x80 | (value >> 6 & 0x3F)), byte(0x80 | (value & 0x3F))};
  }
  return {byte(0xF0 | value >> 18), byte(0x80 | (value >> 12 & 0x3F)), byte(0x80 | (value >> 6 & 0x3F)),
          byte(0x80 | (value & 0x3F))};
}

int display_width(char32_t value) {
  if (value < 0x20 || within(value, no_width)) return 0;
  return within(value, double_width) ? 2 : 1;
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = decode_utf8(text, at);
    width += display_width(character.value);
    at += character.bytes;
  }
  return width;
}

namespace {

/// Spaces of other kinds than " ", marks without width, and those that turn the direction of writing.
bool is_invisible(char32_t value) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range ranges[] = {{0x80, 0xA0},     {0xAD, 0xAD},      {0x1680, 0x1680}, {0x2000, 0x200F},
                              {0x2028, 0x202F}, {0x205F, 0x206F},  {0x3000, 0x3000}, {0xFE00, 0xFE0F},
                              {0xFEFF, 0xFEFF}, {0xE0000, 0xE007F}};
  return std::ranges::any_of(ranges, [&](const Range& one) { return value >= one.first && value <= one.last; });
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = decode_utf8(text, at);
    if (!character.valid || character.value < 0x20 || character.value == 0x7F) {
      result += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at]));
    } else if (is_invisible(character.value)) {
      result += fmt::format("U+{:04X}", static_cast<uint32_t>(character.value));
    } else {
      result += text.substr(at, character.bytes);
    }
    at += character.bytes;
  }
  return result;
}

}  // namespace mesh
