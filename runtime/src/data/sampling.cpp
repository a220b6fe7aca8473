#include "meshrt/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/instruction_set.h"
#include "kernels/logits_kernel.h"
#include "meshrt/random.h"

namespace meshrt {
namespace {

/// Each element once, however often it stands there.
void penalise(std::vector<double>& logits, std::span<const int32_t> before, double penalty) {
  std::vector<bool> seen(logits.size());
  for (const int32_t token : before) {
    const auto at = static_cast<size_t>(token);
    if (seen[at]) continue;
    seen[at] = true;
    logits[at] = logits[at] > 0 ? logits[at] / penalty : logits[at] * penalty;
  }
}

/// The elements that may be chosen, the likeliest first, with their shares.
struct Candidates {
  std::vector<int32_t> tokens;
  std::vector<double> shares;

  void keep(size_t count) {
    tokens.resize(std::max<size_t>(1, std::min(count, tokens.size())));
    shares.resize(tokens.size());
  }
};

Candidates candidates(std::span<const double> logits, const Sampling& how) {
  Candidates all;
  all.tokens.resize(logits.size());
  std::iota(all.tokens.begin(), all.tokens.end(), 0);
  std::ranges::stable_sort(all.tokens, std::greater{},
                           [&](int32_t token) { return logits[static_cast<size_t>(token)]; });
  if (how.top_k > 0) all.tokens.resize(std::min(all.tokens.size(), static_cast<size_t>(how.top_k)));
  const double top = logits[static_cast<size_t>(all.tokens[0])];
  for (const int32_t token : all.tokens)
    all.shares.push_back(std::exp((logits[static_cast<size_t>(token)] - top) / how.temperature));
  const double total = std::accumulate(all.shares.begin(), all.shares.end(), 0.0);
  size_t count = 0;
  for (double sum = 0; count < all.shares.size() && sum < how.top_p * total; ++count) sum += all.shares[count];
  all.keep(count);
  const auto likely = [&](double share) { return share >= how.min_p; };  // the first one's is 1
  all.keep(static_cast<size_t>(std::ranges::find_if_not(all.shares, likely) - all.shares.begin()));
  return all;
}

}  // namespace

double log_sum_exp(std::span<const double> logits) {
  using Kernel = double (*)(const double*, int64_t);
  static const auto kernel = choose<Kernel>(MESHRT_VARIANTS(log_sum_exp));
  return kernel(logits.data(), static_cast<int64_t>(logits.size()));
}

int32_t likeliest(std::span<const double> logits) {
  using Kernel = int64_t (*)(const double*, int64_t);
  static const auto kernel = choose<Kernel>(MESHRT_VARIANTS(likeliest));
  return static_cast<int32_t>(kernel(logits.data(), static_cast<int64_t>(logits.size())));
}

double log_share(std::span<const double> logits, int32_t token) {
  return logits[static_cast<size_t>(token)] - log_sum_exp(logits);
}

Chosen choose_next(std::span<const double> logits, const Sampling& how, std::span<const int32_t> before,
                   int64_t sequence, int64_t position) {
  std::vector<double> penalised;
  if (how.repetition != 1) {
    penalised.assign(logits.begin(), logits.end());
    penalise(penalised, before, how.repetition);
  }
  const std::span<const double> wanted = penalised.empty() ? logits : std::span<const double>(penalised);
  const auto chosen = [&](int32_t token) { return Chosen{token, log_share(logits, token)}; };
  if (how.temperature == 0) return chosen(likeliest(wanted));
  const Candidates from = candidates(wanted, how);
  const RandomKey key = RandomKey(how.seed, "generate").at(static_cast<uint64_t>(position));
  const auto words = random_words(key, static_cast<uint64_t>(sequence));
  double left = detail::open_unit(words[0], words[1]) * std::accumulate(from.shares.begin(), from.shares.end(), 0.0);
  size_t at = 0;
  while (at + 1 < from.tokens.size() && left >= from.shares[at]) left -= from.shares[at++];
  return chosen(from.tokens[at]);
}

}  // namespace meshrt
