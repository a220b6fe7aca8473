#include "generation/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace meshrt {

double Beam::worth(double length_penalty) const {
  return sum / std::pow(static_cast<double>(std::max<size_t>(1, logprobs.size())), length_penalty);
}

BeamSearch::BeamSearch(const GenerateRequest& request, const Vocabulary& vocabulary, size_t positions,
                       const Sequence& prompt)
    : request_(request),
      vocabulary_(vocabulary),
      prompt_(prompt.prompt),
      longest_(longest(prompt, request, positions)),
      width_(static_cast<size_t>(request.beams)),
      beams_{{prompt.tokens, prompt.logprobs, std::accumulate(prompt.logprobs.begin(), prompt.logprobs.end(), 0.0)}} {}

void BeamSearch::put_aside(Beam beam) {
  const double penalty = request_.length_penalty;
  const auto worth = [&](const Beam& one) { return -one.worth(penalty); };
  found_.insert(std::ranges::upper_bound(found_, worth(beam), {}, worth), std::move(beam));
  if (found_.size() > width_) found_.pop_back();
}

Beam BeamSearch::extended(const Candidate& by) const {
  Beam beam = beams_[by.beam];
  beam.tokens.push_back(by.token);
  beam.logprobs.push_back(by.logprob);
  beam.sum = by.sum;
  return beam;
}

/// The likeliest that go on. Every beam may end here, too: what it is then is put aside.
std::vector<BeamSearch::Candidate> BeamSearch::likeliest(std::span<const std::vector<double>> logits) {
  std::vector<Candidate> all;
  for (size_t b = 0; b < beams_.size(); ++b) {
    const std::vector<double>& row = logits[b];
    const double whole = log_sum_exp(row);
    for (size_t token = 0; token < row.size(); ++token) {
      const Candidate one{b, static_cast<int32_t>(token), row[token] - whole, beams_[b].sum + row[token] - whole};
      if (one.token != vocabulary_.end()) {
        all.push_back(one);
        continue;
      }
      Beam beam = extended(one);
      beam.tokens.pop_back();
      put_aside(std::move(beam));
    }
  }
  const auto most = static_cast<std::ptrdiff_t>(std::min(width_, all.size()));
  std::ranges::partial_sort(all, all.begin() + most, {},
                            [](const Candidate& one) { return std::tuple(-one.sum, one.beam, one.token); });
  all.resize(static_cast<size_t>(most));
  return all;
}

std::vector<size_t> BeamSearch::advance(std::span<const std::vector<double>> logits) {
  std::vector<Beam> next;
  std::vector<size_t> from;
  for (const Candidate& one : likeliest(logits)) {
    Beam beam = extended(one);
    if (beam.tokens.size() == longest_ || stops(std::span(beam.tokens).subspan(prompt_), request_, vocabulary_)) {
      put_aside(std::move(beam));
      continue;
    }
    next.push_back(std::move(beam));
    from.push_back(one.beam);
  }
  beams_ = std::move(next);
  return from;
}

/// What goes on only becomes less likely, but its length may make it better all the same.
bool BeamSearch::is_done() const {
  if (beams_.empty()) return true;
  if (found_.size() < width_) return false;
  const auto length = static_cast<double>(longest_ - prompt_);
  const double best = beams_.front().sum / std::pow(length, request_.length_penalty);
  return best <= found_.back().worth(request_.length_penalty);
}

}  // namespace meshrt
