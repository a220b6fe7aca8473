#include "generation/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "meshrt/failure.h"

namespace meshrt {

Vocabulary::Vocabulary(const RunFile& run, const std::string& input, int64_t size) : size_(size) {
  const auto source = std::ranges::find(run.data, input, &Source::input);
  if (source == run.data.end()) return;
  for (const FileSource& file : source->files())
    if (file.tokenizer.given()) pieces_ = Tokenizer::open(file.tokenizer.value);
  if (source->start.given()) start_ = static_cast<int32_t>(source->start.value);
  if (source->pad.given()) pad_ = static_cast<int32_t>(source->pad.value);
  // What ends a line may stand beside the input that is learned from: tgt begins with a mark, label ends with one.
  for (const Source& other : run.data)
    if (other.end.given() &&
        (other.input == input || (!other.file.value.empty() && other.file.value == source->file.value)))
      end_ = static_cast<int32_t>(other.end.value);
}

std::string abbreviated(const std::string& text) {
  constexpr size_t most = 40;  // bytes
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

std::vector<int32_t> Vocabulary::pieces(const std::string& text) const {
  std::vector<int32_t> tokens;
  if (!pieces_) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  } else if (const auto lacking = pieces_->encode(text, tokens)) {
    throw pieces_->lacks(*lacking, fmt::format("prompt `{}`", abbreviated(text)),
                         "; this one needs a prompt without it");
  }
  check(text, tokens);
  return tokens;
}

void Vocabulary::check(const std::string& text, std::span<const int32_t> tokens) const {
  for (const int32_t token : tokens)
    if (token >= size_)
      throw Failure(Cause::data,
                    fmt::format("prompt `{}`: the model has no element {}, its vocabulary has {}{}", abbreviated(text),
                                token, size_,
                                pieces_ ? ": is the `tokenizer` of the run file the one it was trained with?"
                                        : ": it reads bytes below that"));
}

std::vector<int32_t> Vocabulary::encode(const std::string& text, bool whole, const std::string& place) const {
  std::vector<int32_t> tokens = pieces(text);
  if (start_) tokens.insert(tokens.begin(), *start_);
  check(text, tokens);
  if (whole && end_) tokens.push_back(*end_);
  if (tokens.empty())
    throw Failure(
        Cause::data,
        fmt::format("{}{}there is nothing to go on from: give at least one character, or in the run file `start`",
                    place, place.empty() ? "" : ": "));
  return tokens;
}
std::string Vocabulary::decode(std::span<const int32_t> tokens) const {
  if (pieces_) return pieces_->decode(tokens);
  std::string text;
  for (const int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

}  // namespace meshrt
