// beam_search.h: the likeliest texts behind a prompt. At each position the likeliest beginnings go on, side by side;
// those that end are put aside. A text's worth is its log-likelihood over its length to the power of the length
// penalty.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "generation/vocabulary.h"
#include "generation/writer.h"
#include "meshrt/generation.h"

namespace meshrt {

/// A text, or the beginning of one.
struct Beam {
  std::vector<int32_t> tokens;   ///< with the prompt, without the mark behind a text
  std::vector<double> logprobs;  ///< of what was written; of a text with a mark at its end that one's too
  double sum = 0;
  double worth(double length_penalty) const;
};

/// Of one prompt.
class BeamSearch {
 public:
  /// `prompt` with what the model says of all that is forced. `positions`: how many the model has.
  BeamSearch(const GenerateRequest&, const Vocabulary&, size_t positions, const Sequence& prompt);

  /// Nothing that goes on can become better than the best ones that are there.
  bool is_done() const;
  /// One more token, from the logits of each beam: from which beam each goes on.
  std::vector<size_t> advance(std::span<const std::vector<double>> logits);
  /// Those that go on, the likeliest first.
  const std::vector<Beam>& beams() const { return beams_; }
  /// Those that have ended, the best first.
  const std::vector<Beam>& found() const { return found_; }

 private:
  struct Candidate {
    size_t beam;
    int32_t token;
    double logprob, sum;
  };
  std::vector<Candidate> likeliest(std::span<const std::vector<double>> logits);
  Beam extended(const Candidate&) const;
  void put_aside(Beam);

  const GenerateRequest& request_;
  const Vocabulary& vocabulary_;
  size_t prompt_, longest_, width_;
  std::vector<Beam> beams_, found_;
};

}  // namespace meshrt
