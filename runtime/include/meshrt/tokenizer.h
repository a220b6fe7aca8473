// tokenizer.h: text to numbers and back by a SentencePiece model, line by line. A build of the runtime that has not
// found the library says so when it is asked.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshrt/failure.h"

namespace meshrt {

class Tokenizer {
 public:
  /// Throws Failure (Cause::data) when the file is no model, Failure (Cause::environment) without the library.
  static std::shared_ptr<const Tokenizer> open(const std::string& path);
  virtual ~Tokenizer() = default;

  /// Adds the numbers of one line, which holds no line end, to `tokens`. The first character for which the model has
  /// neither a piece nor bytes, so that its unknown piece stands there; nothing where it has all. Of a line that is not
  /// UTF-8 it adds nothing, and gives the first byte that is no text (is_no_text).
  [[nodiscard]] virtual std::optional<std::string> encode(std::string_view line,
                                                          std::vector<int32_t>& tokens) const = 0;
  /// Whether what encode() gave is a byte that no piece can stand for.
  static bool is_no_text(std::string_view lacking);
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  /// Numbers are below this.
  virtual int32_t size() const = 0;
  /// What stands after a document, if the model has it.
  virtual std::optional<int32_t> end() const = 0;

  /// What is told of a character that encode() gave. `place`: "`a.txt`, line 3"; `way_out`: what else helps than
  /// another model.
  Failure lacks(const std::string& character, const std::string& place, const std::string& way_out) const;

 protected:
  explicit Tokenizer(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
};

/// Makes a model of `size` numbers from the lines of texts, and writes it to `path`. `method` is "unigram" or "bpe".
/// The same texts give the same model. Throws as Tokenizer::open, and Failure (Cause::data) where the texts do not do.
void train_tokenizer(const std::vector<std::string>& texts, const std::string& path, int64_t size,
                     const std::string& method);

/// visit(line) for each line of a text, without its line end.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace meshrt
