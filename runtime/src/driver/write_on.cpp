#include "driver/write_on.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace meshrt {

namespace {

/// Where sequences stand, each `width` times side by side: at the ends of what they begin with, or, where the program
/// has one position for all, at the end of what all have at least.
class Places {
 public:
  /// Reads the beginnings.
  Places(Decoder& decoder, std::span<Sequence> sequences, size_t width) : own_(decoder.shape().own_positions) {
    const auto length = [](const Sequence& one) { return one.tokens.size(); };
    const size_t common = length(*std::ranges::min_element(sequences, {}, length));
    for (size_t i = 0; i < sequences.size(); ++i) {
      const std::vector<int32_t>& tokens = sequences[i].tokens;
      for (size_t k = i * width; k < (i + 1) * width; ++k)
        for (size_t position = 0; position < tokens.size(); ++position) decoder.set(k, position, tokens[position]);
      at_.insert(at_.end(), width, own_ ? tokens.size() : common);
    }
    decoder.read_first(at_);
    for (size_t& at : at_) --at;
    for (size_t i = 0; i < sequences.size(); ++i)
      for (size_t place = 1; place <= at_[i * width]; ++place)
        sequences[i].told(place, decoder.next(i * width, place - 1).logprob);
  }
  size_t operator[](size_t k) const { return at_[k]; }
  /// To the next position; what `stays` there stays where it can.
  template <class Stays>
  void advance(const Stays& stays) {
    for (size_t k = 0; k < at_.size(); ++k)
      if (!own_ || !stays(k)) ++at_[k];
  }
  std::span<const size_t> all() const { return at_; }

 private:
  const bool own_;
  std::vector<size_t> at_;
};

/// A prompt's beams: its search begins where its tokens end.
class PromptSearch {
 public:
  PromptSearch(const GenerateRequest& request, const Vocabulary& vocabulary, size_t positions, Sequence& prompt,
               size_t first)
      : request_(request), vocabulary_(vocabulary), positions_(positions), prompt_(prompt), first_(first) {}

  bool is_done() const { return search && search->is_done(); }

  /// Behind a position that has been read: the next tokens, and in `from` whose each one goes on.
  void advance(const Decoder& decoder, size_t position, std::span<int32_t> from) {
    const size_t next = position + 1;
    if (next < prompt_.tokens.size()) {
      prompt_.told(next, log_share(decoder.logits(first_), prompt_.tokens[next]));
      return;
    }
    if (!search) search.emplace(request_, vocabulary_, positions_, prompt_);
    std::vector<std::vector<double>> logits;
    for (size_t b = 0; b < search->beams().size(); ++b) logits.push_back(decoder.logits(first_ + b));
    const std::vector<size_t> chosen = search->advance(logits);
    for (size_t b = 0; b < chosen.size(); ++b) from[first_ + b] = static_cast<int32_t>(first_ + chosen[b]);
  }

  void set(Decoder& decoder, size_t position) const {
    if (!search) return;
    for (size_t b = 0; b < search->beams().size(); ++b)
      decoder.set(first_ + b, position, search->beams()[b].tokens[position]);
  }

  std::optional<BeamSearch> search;

 private:
  const GenerateRequest& request_;
  const Vocabulary& vocabulary_;
  size_t positions_;
  Sequence& prompt_;
  size_t first_;  // of its sequences
};

}  // namespace

void write_on(Decoder& decoder, Writer& writer) {
  std::vector<Sequence>& sequences = writer.sequences();
  Places places(decoder, sequences, 1);
  for (;;) {
    for (size_t i = 0; i < sequences.size(); ++i)
      if (places[i] < sequences[i].tokens.size()) writer.take(i, places[i], decoder.logits(i));
    if (!writer.goes_on()) return;
    places.advance([&](size_t i) { return sequences[i].ended; });
    for (size_t i = 0; i < sequences.size(); ++i)
      if (places[i] < sequences[i].tokens.size()) decoder.set(i, places[i], sequences[i].tokens[places[i]]);
    decoder.read(places.all());
  }
}

std::vector<BeamSearch> search(Decoder& decoder, const GenerateRequest& request, const Vocabulary& vocabulary,
                               std::span<Sequence> prompts) {
  const auto width = static_cast<size_t>(request.beams);
  std::vector<PromptSearch> groups;
  for (size_t i = 0; i < prompts.size(); ++i)
    groups.emplace_back(request, vocabulary, static_cast<size_t>(decoder.shape().positions), prompts[i], i * width);
  std::vector<int32_t> as_they_are(static_cast<size_t>(decoder.shape().sequences));
  std::iota(as_they_are.begin(), as_they_are.end(), 0);
  Places places(decoder, prompts, width);
  for (;;) {
    std::vector<int32_t> from = as_they_are;
    for (size_t i = 0; i < groups.size(); ++i)
      if (!groups[i].is_done()) groups[i].advance(decoder, places[i * width], from);
    if (std::ranges::all_of(groups, &PromptSearch::is_done)) break;
    if (from != as_they_are) decoder.choose(from);
    places.advance([&](size_t k) { return groups[k / width].is_done(); });
    for (size_t i = 0; i < groups.size(); ++i)
      if (!groups[i].is_done()) groups[i].set(decoder, places[i * width]);
    decoder.read(places.all());
  }
  std::vector<BeamSearch> found;
  for (PromptSearch& group : groups) found.push_back(std::move(*group.search));
  return found;
}

}  // namespace meshrt
