#include "generation/writer.h"

#include <algorithm>

#include "system/tell.h"

namespace meshrt {

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

size_t Writer::wanted_of(const Sequence& one) const {
  return request_.tokens == 0 ? positions_ - one.prompt : static_cast<size_t>(request_.tokens);
}

void Writer::take(size_t sequence, size_t position, std::span<const double> logits) {
  Sequence& one = sequences_[sequence];
  const size_t next = position + 1;
  if (next < one.prompt) one.given.push_back(log_share(logits, one.tokens[next]));
  if (one.ended || next != one.tokens.size()) return;
  Sampling sampling = request_.sampling;
  if (request_.greedy) sampling.temperature = 0;
  const Chosen chosen = choose_next(logits, sampling, one.tokens, one.number, static_cast<int64_t>(next));
  one.ended = chosen.token == vocabulary_.end();
  if (one.ended) return;
  one.logprobs.push_back(chosen.logprob);
  one.tokens.push_back(chosen.token);
  one.ended = one.made().size() == wanted_of(one) || stops(one);
  if (show_ != nullptr) show(one);
}

bool Writer::stops(const Sequence& one) const {
  if (request_.stops.empty()) return false;
  const std::string text = vocabulary_.decode(one.made());
  return std::ranges::any_of(request_.stops, [&](const std::string& stop) { return text.ends_with(stop); });
}

void Writer::show(const Sequence& one) {
  const std::string text = vocabulary_.decode(one.made());
  if (text.size() <= shown_) return;
  tell_on(show_, "{}", text.substr(shown_));
  std::fflush(show_);
  shown_ = text.size();
}

}  // namespace meshrt
