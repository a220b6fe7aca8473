// sampling.h: the next element of a sequence, chosen by the logits that a model gives for it. Random numbers depend on
// seed, sequence and position alone: the same logits give the same sequence on any number of ranks.
#pragma once
#include <cstdint>
#include <span>

namespace meshrt {

struct Sampling {
  double temperature = 1;  ///< logits are divided by it; 0: the likeliest element, the first of equals
  int64_t top_k = 0;       ///< only the likeliest so many; 0: all
  double top_p = 1;        ///< only the likeliest that have this share together
  double min_p = 0;        ///< only those that have this part of the likeliest one's share
  double repetition = 1;   ///< logits of what stands in the sequence already: divided by it, times it where negative
  uint64_t seed = 1;
};

struct Chosen {
  int32_t token;
  double logprob;  ///< of all elements at temperature 1, in nats
};

/// The logarithm of the sum of their exponentials: what is subtracted from a logit to give the logarithm of its share.
double log_sum_exp(std::span<const double> logits);

/// The element of the largest logit, the first of several.
int32_t likeliest(std::span<const double> logits);

/// How likely the logits say an element is: the logarithm of its share of all.
double log_share(std::span<const double> logits, int32_t token);

/// Of the sequence with this number the element at `position`, behind `before`.
Chosen choose_next(std::span<const double> logits, const Sampling&, std::span<const int32_t> before, int64_t sequence,
                   int64_t position);

}  // namespace meshrt
