// Text as the numbers that a tokenizer gives.
#include "data/data_formats.h"
#include "meshrt/tokenizer.h"

namespace meshrt {

std::vector<int32_t> Tokenizer::encode_lines(std::string_view text) const {
  std::vector<int32_t> tokens;
  for_each_line(text, [&](std::string_view line) { encode(line, tokens); });
  return tokens;
}

NumberFile NumberFile::tokenized(const std::string& path, const std::string& tokenizer) {
  const FilePointer file = FileBytes::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const auto tokens = std::make_shared<const std::vector<int32_t>>(Tokenizer::open(tokenizer)->encode_lines(text));
  return NumberFileMaker(*file)
      .numbers({Number::i32, false}, {static_cast<int64_t>(tokens->size())})
      .at(tokens, std::as_bytes(std::span(*tokens)))
      .done();
}

}  // namespace meshrt
