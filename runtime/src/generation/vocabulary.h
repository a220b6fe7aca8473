// vocabulary.h: text as the numbers that a model was trained on, and back: what the run file says of an input.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshrt/run_file.h"
#include "meshrt/tokenizer.h"

namespace meshrt {

/// A text as messages show it: the beginning of a long one.
std::string abbreviated(const std::string& text);

/// By the input's tokenizer, else byte by byte.
class Vocabulary {
 public:
  Vocabulary(const RunFile&, const std::string& input, int64_t size);

  /// A prompt, or a whole line with the marks that it has in the data. Throws Failure (Cause::data) for numbers
  /// that the model does not have, and where there are none: at `place`, if it is known.
  std::vector<int32_t> encode(const std::string& text, bool whole = false, const std::string& place = {}) const;
  /// A part of a text, without marks.
  std::vector<int32_t> pieces(const std::string& text) const;
  std::string decode(std::span<const int32_t> tokens) const;
  int32_t pad() const { return pad_; }
  /// What stands behind a text, if anything does.
  std::optional<int32_t> end() const { return end_ ? end_ : pieces_ ? pieces_->end() : std::nullopt; }

 private:
  void check(const std::string& text, std::span<const int32_t> tokens) const;

  int64_t size_;
  std::shared_ptr<const Tokenizer> pieces_;
  std::optional<int32_t> start_, end_;
  int32_t pad_ = 0;
};

}  // namespace meshrt
