// writer.h: sequences that a model writes on, position by position: what becomes of its logits.
#pragma once
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "generation/vocabulary.h"
#include "meshrt/generation.h"

namespace meshrt {

/// One prompt and what was written behind it.
struct Sequence {
  std::vector<int32_t> tokens;
  size_t prompt;                      ///< so many of them
  size_t forced;                      ///< so many with how the text must begin
  int64_t number;                     ///< of all prompts, from 0
  std::vector<double> given = {};     ///< of the prompt behind its first element
  std::vector<double> logprobs = {};  ///< of what was written, and of the mark with which it ends
  bool ended = false;
  std::span<const int32_t> made() const { return std::span(tokens).subspan(prompt); }
  /// What the model says of the token at a place that is not free.
  void told(size_t place, double logprob) { (place < prompt ? given : logprobs).push_back(logprob); }
};

/// The length that a sequence has at most.
size_t longest(const Sequence&, const GenerateRequest&, size_t positions);
/// Whether what was written ends as `--stop` says.
bool stops(std::span<const int32_t> made, const GenerateRequest&, const Vocabulary&);

/// The sequences of one round: they stand at the same position.
class Writer {
 public:
  /// `positions`: how many the model has. `show`: a single sequence is printed there as it is written; null: not.
  Writer(const GenerateRequest&, const Vocabulary&, int64_t positions, std::FILE* show, std::vector<Sequence>);

  /// What the logits of a sequence at a position say of the next one. Where the sequence ends there, it is longer by
  /// one, or has come to its end.
  void take(size_t sequence, size_t position, std::span<const double> logits);
  bool goes_on() const;
  std::vector<Sequence>& sequences() { return sequences_; }

 private:
  void show(const Sequence&);

  const GenerateRequest& request_;
  const Vocabulary& vocabulary_;
  size_t positions_;
  std::FILE* show_;
  std::vector<Sequence> sequences_;
  size_t shown_ = 0;
};

}  // namespace meshrt
