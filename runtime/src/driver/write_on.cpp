#include "driver/write_on.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace meshrt {

namespace {

/// What all sequences have at least is read first; the position of its end. `width`: so many of the decoder's for each.
size_t read_common(Decoder& decoder, std::span<Sequence> sequences, size_t width) {
  size_t common = sequences.front().tokens.size();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<int32_t>& tokens = sequences[i].tokens;
    common = std::min(common, tokens.size());
    for (size_t k = i * width; k < (i + 1) * width; ++k)
      for (size_t position = 0; position < tokens.size(); ++position) decoder.set(k, position, tokens[position]);
  }
  decoder.read_first(common);
  for (size_t i = 0; i < sequences.size(); ++i)
    for (size_t place = 1; place < common; ++place)
      sequences[i].told(place, decoder.next(i * width, place - 1).logprob);
  return common - 1;
}

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
  size_t position = read_common(decoder, sequences, 1);
  for (;;) {
    for (size_t i = 0; i < sequences.size(); ++i)
      if (position < sequences[i].tokens.size()) writer.take(i, position, decoder.logits(i));
    if (!writer.goes_on()) return;
    ++position;
    for (size_t i = 0; i < sequences.size(); ++i)
      if (position < sequences[i].tokens.size()) decoder.set(i, position, sequences[i].tokens[position]);
    decoder.read(position);
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
  size_t position = read_common(decoder, prompts, width);
  for (;;) {
    std::vector<int32_t> from = as_they_are;
    for (PromptSearch& group : groups)
      if (!group.is_done()) group.advance(decoder, position, from);
    if (std::ranges::all_of(groups, &PromptSearch::is_done)) break;
    if (from != as_they_are) decoder.choose(from);
    ++position;
    for (const PromptSearch& group : groups)
      if (!group.is_done()) group.set(decoder, position);
    decoder.read(position);
  }
  std::vector<BeamSearch> found;
  for (PromptSearch& group : groups) found.push_back(std::move(*group.search));
  return found;
}

}  // namespace meshrt
