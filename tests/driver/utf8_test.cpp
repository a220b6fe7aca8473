// What is text in UTF-8: the table of well-formed bytes of the Unicode standard (3.9, D92), at its ends and beside
// them.
#include "data/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace meshrt {
namespace {

TEST(Utf8, TakesEveryCharacter) {
  for (uint32_t code = 1; code < 0x110000; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    const auto six_bits = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) text += static_cast<char>(code);
    else if (code < 0x800) text += static_cast<char>(0xC0 | code >> 6), six_bits(0);
    else if (code < 0x10000) text += static_cast<char>(0xE0 | code >> 12), six_bits(6), six_bits(0);
    else text += static_cast<char>(0xF0 | code >> 18), six_bits(12), six_bits(6), six_bits(0);
    ASSERT_EQ(valid_utf8(text), text.size()) << code;
    ASSERT_EQ(valid_utf8(text + "a"), text.size() + 1) << code;
    const std::string cut = text.substr(0, text.size() - 1);
    ASSERT_EQ(valid_utf8("ab" + cut), 2U) << code;
  }
}

TEST(Utf8, EndsWhereBytesAreNone) {
  for (const char* none :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xC3\x41", "\xE2\x82\x41"})
    EXPECT_EQ(valid_utf8(std::string("\xC3\xA9") + none + "a"), 2U) << none;
  EXPECT_EQ(valid_utf8(""), 0U);
}

}  // namespace
}  // namespace meshrt
