// Text as the numbers that a tokenizer gives.
#include <fmt/format.h>

#include "data/data_formats.h"
#include "data/utf8.h"
#include "meshrt/tokenizer.h"

namespace meshrt {

namespace {

/// "U+00E9", of a character in UTF-8.
std::string code_of(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  const size_t more = character.size() - 1;  // bytes of six bits each behind the first
  uint32_t code = more == 0 ? byte(0) : byte(0) & (0x3F >> more);
  for (size_t i = 1; i <= more; ++i) code = code << 6 | (byte(i) & 0x3F);
  return fmt::format("U+{:04X}", code);
}

}  // namespace

bool Tokenizer::is_no_text(std::string_view lacking) { return valid_utf8(lacking) < lacking.size(); }

Failure Tokenizer::lacks(const std::string& character, const std::string& place, const std::string& way_out) const {
  if (is_no_text(character))
    return {Cause::data, fmt::format("{}: the byte 0x{:02x} is no text in UTF-8, which `{}` reads: save the text in "
                                     "UTF-8 (`iconv -t UTF-8` converts it)",
                                     place, static_cast<unsigned char>(character[0]), path_)};
  return {Cause::data,
          fmt::format("{}: `{}` has no piece for `{}` ({}), nor pieces for bytes: a model that `meshc data "
                      "train` makes reads every character{}",
                      place, path_, character, code_of(character), way_out)};
}

NumberFile NumberFile::tokenized(const std::string& path, const std::string& tokenizer) {
  const FilePointer file = FileBytes::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const auto tokens = std::make_shared<std::vector<int32_t>>();
  const auto model = Tokenizer::open(tokenizer);
  int64_t number = 0;
  for_each_line(text, [&](std::string_view line) {
    ++number;
    if (const auto lacking = model->encode(line, *tokens))
      throw model->lacks(*lacking, fmt::format("`{}`, line {}", path, number),
                         "; `meshc data tokenize --unknown` writes this one's unknown piece in its place");
  });
  return NumberFileMaker(*file)
      .numbers({Number::i32, false}, {static_cast<int64_t>(tokens->size())})
      .at(tokens, std::as_bytes(std::span(*tokens)))
      .done();
}

}  // namespace meshrt
