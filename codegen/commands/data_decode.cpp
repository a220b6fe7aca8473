// data_decode.cpp: `meshc data decode`: token files as the texts that they were made of.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/data.h"
#include "meshrt/data.h"
#include "meshrt/failure.h"
#include "meshrt/log.h"
#include "meshrt/output_path.h"
#include "meshrt/tokenizer.h"

namespace mesh {

namespace {

using meshrt::Cause, meshrt::Failure, meshrt::FileType, meshrt::NumberFile, meshrt::Type;

/// Where the text goes: a file, which has its name when all is written, or stdout.
class TextOutput {
 public:
  explicit TextOutput(const std::string& path) : path_(path.empty() ? path : meshrt::output_path(path)) {
    if (path_.empty()) return;
    file_.reset(std::fopen((path_ + ".unfinished").c_str(), "wb"));
    if (!file_) fail();
  }
  ~TextOutput() {
    if (file_) std::remove((path_ + ".unfinished").c_str());
  }
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;

  void write(std::string_view text) {
    std::FILE* const to = file_ ? file_.get() : stdout;
    if (std::fwrite(text.data(), 1, text.size(), to) != text.size()) fail();
    bytes_ += static_cast<int64_t>(text.size());
  }
  void finish() {
    if (std::fflush(file_ ? file_.get() : stdout) != 0) fail();
    if (file_ && std::rename((path_ + ".unfinished").c_str(), path_.c_str()) != 0) fail();
    file_.reset();
  }
  int64_t bytes() const { return bytes_; }

 private:
  struct Closing {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void fail() const {
    throw Failure(Cause::environment,
                  fmt::format("cannot write {}: {}", path_.empty() ? "the text" : path_, std::strerror(errno)));
  }

  std::string path_;
  std::unique_ptr<std::FILE, Closing> file_;
  int64_t bytes_ = 0;
};

/// Tokens to text. An end marker is no text: it closes a document, behind which a line ends. So does the end of a
/// document that the file itself knows.
class Decoder {
 public:
  Decoder(const meshrt::Tokenizer* tokenizer, std::optional<int32_t> end, TextOutput& out)
      : tokenizer_(tokenizer), end_(end), out_(out) {}

  void add(std::span<const int32_t> tokens) {
    while (!tokens.empty()) {
      const auto end = end_ ? std::ranges::find(tokens, *end_) : tokens.end();
      const auto count = static_cast<size_t>(end - tokens.begin());
      text(tokens.first(count));
      ended_ = ended_ && count == 0;
      if (end == tokens.end()) return;
      tokens = tokens.subspan(count + 1);
      end_line();
    }
  }
  /// The document ends here, with an end marker or without.
  void end_document() {
    if (!ended_) end_line();
    ended_ = false;
  }
  /// Behind the last token of a file.
  void close() {
    if (open_.empty()) return;
    out_.write(tokenizer_->decode(open_));
    open_.clear();
  }
  int64_t documents = 0;

 private:
  void end_line() {
    close();
    out_.write("\n");
    ++documents;
    ended_ = true;
  }
  void text(std::span<const int32_t> tokens) {
    // A piece's text depends on those before it: a document is decoded at once.
    if (tokenizer_ != nullptr) {
      open_.insert(open_.end(), tokens.begin(), tokens.end());
      return;
    }
    std::string bytes(tokens.size(), '\0');
    std::ranges::transform(tokens, bytes.begin(), [](int32_t token) { return static_cast<char>(token); });
    out_.write(bytes);
  }

  const meshrt::Tokenizer* tokenizer_;
  std::optional<int32_t> end_;
  TextOutput& out_;
  std::vector<int32_t> open_;  // of the present document, with a tokenizer
  bool ended_ = false;         // by the last token
};

std::string no_token(const DataOptions& options, const std::string& path, int64_t at, int32_t token, int64_t bound) {
  if (options.tokenizer.empty())
    return fmt::format("`{}`: number {} is {}, which is no byte: `--tokenizer FILE` names the model that made it{}",
                       path, at, token, options.end ? "" : ", `--end N` what ends a document");
  return fmt::format("`{}`: number {} is {}, but `{}` has {} pieces: is it the model that made the file?", path, at,
                     token, options.tokenizer, bound);
}

}  // namespace

int decode_data(const DataOptions& options) {
  if (options.json && options.out.empty()) throw UsageError("`meshc data decode --json` needs `-o FILE` for the text");
  const auto tokenizer = options.tokenizer.empty() ? nullptr : meshrt::Tokenizer::open(options.tokenizer);
  const int64_t bound = tokenizer ? tokenizer->size() : 256;
  std::optional<int32_t> end = end_marker(options);
  if (!end && !options.no_end && tokenizer) end = tokenizer->end();
  const FileType from = options.from.empty() ? FileType::detect : *meshrt::file_type_named(options.from);
  std::vector<NumberFile> files;
  for (const std::string& path : options.files) {
    files.push_back(NumberFile::open(path, from));
    files.back().require(Type::i32, "a token file");
  }
  TextOutput out(options.out);
  Decoder decoder(tokenizer.get(), end, out);
  int64_t count = 0;
  constexpr int64_t block = 1 << 20;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::vector<int64_t> ends = document_ends(files[i]);
    auto next = ends.begin();
    for (int64_t begin = 0; begin < files[i].elements(); begin += static_cast<int64_t>(tokens.size())) {
      const int64_t stop = next != ends.end() ? *next : files[i].elements();
      tokens.resize(static_cast<size_t>(std::min(block, stop - begin)));
      files[i].read(begin, static_cast<int64_t>(tokens.size()), Type::i32, INT32_MAX, "a token file", tokens.data());
      for (size_t k = 0; k < tokens.size(); ++k)
        if (tokens[k] >= bound && tokens[k] != end)
          throw Failure(Cause::data,
                        no_token(options, options.files[i], begin + static_cast<int64_t>(k), tokens[k], bound));
      decoder.add(tokens);
      count += static_cast<int64_t>(tokens.size());
      if (next == ends.end() || begin + static_cast<int64_t>(tokens.size()) < *next) continue;
      decoder.end_document();
      ++next;
    }
    decoder.close();
  }
  out.finish();
  if (options.out.empty()) return exit_ok;
  if (options.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"schema", 1},
                                              {"file", options.out},
                                              {"tokens", count},
                                              {"documents", decoder.documents},
                                              {"bytes", out.bytes()}}
                           .dump(2));
  else
    fmt::print("wrote {}: {} bytes of {} tokens, {} document{}\n", options.out, meshrt::grouped(out.bytes()),
               meshrt::grouped(count), meshrt::grouped(decoder.documents), decoder.documents == 1 ? "" : "s");
  return exit_ok;
}

}  // namespace mesh
