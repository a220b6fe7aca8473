// data_write.cpp: `meshc data tokenize`, `pack` and `train`: token files and vocabularies.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/data.h"
#include "meshrt/data.h"
#include "meshrt/failure.h"
#include "meshrt/log.h"
#include "meshrt/token_file.h"
#include "meshrt/tokenizer.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;
using meshrt::Cause, meshrt::Failure, meshrt::FileType, meshrt::NumberFile, meshrt::TokenWriter, meshrt::Type;

FileType type_of(const std::string& name) { return name.empty() ? FileType::llm_c : *meshrt::file_type_named(name); }

/// A text's lines, read one at a time: texts may be larger than memory.
class Text {
 public:
  explicit Text(const std::string& path) : file_(NumberFile::open(path, FileType::bytes)) {}

  /// With its line end; false after the last one.
  bool next(std::string& line) {
    line.clear();
    while (at_ < block_.size() || read()) {
      const size_t end = block_.find('\n', at_), begin = at_;
      at_ = end == std::string::npos ? block_.size() : end + 1;
      line.append(block_, begin, at_ - begin);
      if (end != std::string::npos) return true;
    }
    return !line.empty();
  }

 private:
  bool read() {
    constexpr int64_t most = 1 << 20;
    block_.resize(static_cast<size_t>(std::min(most, file_.elements() - read_)));
    file_.read(read_, static_cast<int64_t>(block_.size()), Type::u8, -1, "a text", block_.data());
    read_ += static_cast<int64_t>(block_.size());
    at_ = 0;
    return !block_.empty();
  }

  NumberFile file_;
  std::string block_;
  size_t at_ = 0;
  int64_t read_ = 0;
};

/// What becomes of the lines of texts: tokens, gathered to documents.
class Documents {
 public:
  Documents(const DataOptions& options, const meshrt::Tokenizer* tokenizer, std::optional<int32_t> end,
            TokenWriter& writer)
      : options_(options), tokenizer_(tokenizer), end_(end), writer_(writer) {}

  void add(const std::string& path) {
    Text text(path);
    int64_t number = 0;
    for (std::string line; text.next(line);) {
      ++number;
      const std::string_view content = without_end(line);
      if (options_.documents == "blank" && content.empty()) {
        close();
        continue;
      }
      if (tokenizer_ == nullptr) {
        for (const char c : options_.documents == "line" ? content : std::string_view(line))
          tokens_.push_back(static_cast<unsigned char>(c));
      } else if (const auto lacking = tokenizer_->encode(content, tokens_);
                 lacking && (!options_.unknown || meshrt::Tokenizer::is_no_text(*lacking))) {
        throw tokenizer_->lacks(*lacking, fmt::format("`{}`, line {}", path, number),
                                "; `--unknown` writes this one's unknown piece in its place");
      }
      open_ = true;
      if (options_.documents == "line") close();
    }
    close();
  }

 private:
  static std::string_view without_end(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  void close() {
    if (!open_) return;
    if (end_) tokens_.push_back(*end_);
    writer_.add(tokens_);
    writer_.end_document();
    tokens_.clear();
    open_ = false;
  }

  const DataOptions& options_;
  const meshrt::Tokenizer* tokenizer_;
  std::optional<int32_t> end_;
  TokenWriter& writer_;
  std::vector<int32_t> tokens_;
  bool open_ = false;
};

int told(const TokenWriter& writer, int64_t bound, bool json) {
  if (json)
    fmt::print("{}\n", Json{{"schema", 1},
                            {"files", writer.files()},
                            {"tokens", writer.tokens()},
                            {"documents", writer.documents()},
                            {"bound", bound}}
                           .dump(2));
  else
    fmt::print("wrote {}: {} tokens below {} in {} document{}\n", fmt::join(writer.files(), " and "),
               meshrt::grouped(writer.tokens()), bound, meshrt::grouped(writer.documents()),
               writer.documents() == 1 ? "" : "s");
  return exit_ok;
}

}  // namespace

std::optional<int32_t> end_marker(const DataOptions& options) {
  if (!options.end) return std::nullopt;
  if (*options.end >= INT32_MAX) throw UsageError("--end: tokens are below 2147483647");
  return static_cast<int32_t>(*options.end);
}

int tokenize_data(const DataOptions& options) {
  const auto tokenizer = options.tokenizer.empty() ? nullptr : meshrt::Tokenizer::open(options.tokenizer);
  std::optional<int32_t> end = end_marker(options);
  if (!end && !options.no_end && tokenizer) end = tokenizer->end();
  const int64_t bound = std::max<int64_t>(tokenizer ? tokenizer->size() : 256, end ? *end + int64_t{1} : 0);
  TokenWriter writer(options.out, type_of(options.type), bound);
  Documents documents(options, tokenizer.get(), end, writer);
  for (const std::string& path : options.files) documents.add(path);
  writer.finish();
  return told(writer, bound, options.json);
}

int pack_data(const DataOptions& options) {
  const FileType from = options.from.empty() ? FileType::detect : *meshrt::file_type_named(options.from);
  const std::optional<int32_t> end = end_marker(options);
  std::vector<NumberFile> files;
  int64_t bound = end ? *end + int64_t{1} : 1;
  constexpr int64_t block = 1 << 20;
  std::vector<int32_t> tokens;
  const auto each_block = [&](const NumberFile& file, auto visit) {
    for (int64_t begin = 0; begin < file.elements(); begin += block) {
      tokens.resize(static_cast<size_t>(std::min(block, file.elements() - begin)));
      file.read(begin, static_cast<int64_t>(tokens.size()), Type::i32, INT32_MAX, "a token file", tokens.data());
      visit();
    }
  };
  for (const std::string& path : options.files) {
    files.push_back(NumberFile::open(path, from));
    files.back().require(Type::i32, "a token file");
    each_block(files.back(), [&] {
      for (const int32_t token : tokens) bound = std::max(bound, token + int64_t{1});
    });
  }
  TokenWriter writer(options.out, type_of(options.type), bound);
  for (const NumberFile& file : files) {
    each_block(file, [&] { writer.add(tokens); });
    if (end) writer.add({&*end, 1});
    writer.end_document();
  }
  writer.finish();
  return told(writer, bound, options.json);
}

int train_data_tokenizer(const DataOptions& options) {
  meshrt::train_tokenizer(options.files, options.out, options.vocabulary, options.method);
  const auto tokenizer = meshrt::Tokenizer::open(options.out);
  if (options.json) fmt::print("{}\n", Json{{"schema", 1}, {"file", options.out}, {"size", tokenizer->size()}}.dump(2));
  else fmt::print("wrote {}: {} pieces\n", options.out, meshrt::grouped(tokenizer->size()));
  return exit_ok;
}

}  // namespace mesh
