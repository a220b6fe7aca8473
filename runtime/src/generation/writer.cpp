#include "generation/writer.h"

#include <algorithm>

#include "system/tell.h"

namespace meshrt {

size_t longest(const Sequence& one, const GenerateRequest& request, size_t positions) {
  return request.tokens == 0 ? positions : one.forced + static_cast<size_t>(request.tokens);
}

bool stops(std::span<const int32_t> made, const GenerateRequest& request, const Vocabulary& vocabulary) {
  if (request.stops.empty()) return false;
  const std::string text = vocabulary.decode(made);
  return std::ranges::any_of(request.stops, [&](const std::string& stop) { return text.ends_with(stop); });
}

Writer::Writer(const GenerateRequest& request, const Vocabulary& vocabulary, int64_t positions, std::FILE* show,
               std::vector<Sequence> sequences)
    : request_(request),
      vocabulary_(vocabulary),
      positions_(static_cast<size_t>(positions)),
      show_(show),
      sequences_(std::move(sequences)) {}

bool Writer::goes_on() const {
  return std::ranges::any_of(sequences_, [](const Sequence& one) { return !one.ended; });
}

void Writer::take(size_t sequence, size_t position, std::span<const double> logits) {
  Sequence& one = sequences_[sequence];
  const size_t next = position + 1;
  if (next < one.forced) one.told(next, log_share(logits, one.tokens[next]));
  if (one.ended || next != one.tokens.size()) return;
  Sampling sampling = request_.sampling;
  if (request_.greedy) sampling.temperature = 0;
  const Chosen chosen = choose_next(logits, sampling, one.tokens, one.number, static_cast<int64_t>(next));
  one.logprobs.push_back(chosen.logprob);
  one.ended = chosen.token == vocabulary_.end();
  if (one.ended) return;
  one.tokens.push_back(chosen.token);
  one.ended = one.tokens.size() == longest(one, request_, positions_) || stops(one.made(), request_, vocabulary_);
  if (show_ != nullptr) show(one);
}

void Writer::show(const Sequence& one) {
  const std::string text = vocabulary_.decode(one.made());
  if (text.size() <= shown_) return;
  tell_on(show_, "{}", text.substr(shown_));
  std::fflush(show_);
  shown_ = text.size();
}

}  // namespace meshrt
