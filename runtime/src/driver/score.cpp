// How likely a trained model says texts are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "driver/given_lines.h"
#include "driver/with_decoder.h"
#include "meshrt/failure.h"
#include "meshrt/generation.h"
#include "system/tell.h"

namespace meshrt {

namespace {

/// A text as the model's numbers, and what the model says of them.
struct Scored {
  std::vector<int32_t> tokens;
  size_t begin;                  // the first one that is scored
  std::vector<double> logprobs;  // from there on, nats
  bool greedy = true;            // each is the likeliest: what `generate --greedy` writes behind what is given
  double sum() const { return std::accumulate(logprobs.begin(), logprobs.end(), 0.0); }
  std::span<const int32_t> scored() const { return std::span(tokens).subspan(begin); }
};

Scored numbers_of(const TextToScore& text, const DecoderShape& shape, const Vocabulary& vocabulary) {
  Scored one{};
  if (!shape.given.empty()) {
    one.tokens = vocabulary.encode(text.text, true);
  } else {
    // Pieces may reach over the border: those count that what is given does not have by itself.
    one.tokens = vocabulary.encode(text.given + text.text);
    if (!text.given.empty()) {
      const std::vector<int32_t> given = vocabulary.encode(text.given);
      one.begin = static_cast<size_t>(std::ranges::mismatch(given, one.tokens).in2 - one.tokens.begin());
    }
  }
  one.begin = std::max<size_t>(one.begin, 1);  // nothing says how likely the first is
  if (one.begin >= one.tokens.size())
    throw Failure(Cause::data, fmt::format("{}: nothing to score in `{}`: the first element stands behind none, put "
                                           "what is given before it, and a tab",
                                           text.place, text.text));
  if (const size_t read = one.tokens.size() - 1; read > static_cast<size_t>(shape.positions))
    throw Failure(Cause::data,
                  fmt::format("{}: the text has {} positions: the model has {}", text.place, read, shape.positions));
  return one;
}

void score_round(Decoder& decoder, const Round& round, std::vector<Scored>& scores) {
  decoder.begin(round.given);
  size_t longest = 0;
  for (size_t i = 0; i < round.numbers.size(); ++i) {
    const std::vector<int32_t>& tokens = scores[round.numbers[i]].tokens;
    longest = std::max(longest, tokens.size());
    for (size_t position = 0; position < tokens.size(); ++position) decoder.set(i, position, tokens[position]);
  }
  decoder.read_first(std::vector<size_t>(round.numbers.size(), longest - 1));
  for (size_t i = 0; i < round.numbers.size(); ++i) {
    Scored& one = scores[round.numbers[i]];
    for (size_t at = one.begin; at < one.tokens.size(); ++at) {
      const Next next = decoder.next(i, at - 1);
      if (std::isnan(next.logprob)) refuse_nan();
      one.logprobs.push_back(next.logprob);
      one.greedy = one.greedy && next.likeliest;
    }
  }
}

void report(const std::vector<TextToScore>& texts, const std::vector<Scored>& scores, bool json, std::FILE* out) {
  size_t tokens = 0;
  double sum = 0;
  for (const Scored& one : scores) tokens += one.logprobs.size(), sum += one.sum();
  const double perplexity = std::exp(-sum / static_cast<double>(tokens));
  if (json) {
    nlohmann::json listed = nlohmann::json::array();
    for (size_t i = 0; i < texts.size(); ++i)
      listed.push_back({{"given", texts[i].given},
                        {"text", texts[i].text},
                        {"tokens", std::vector<int32_t>(scores[i].scored().begin(), scores[i].scored().end())},
                        {"logprob", scores[i].sum()},
                        {"logprobs", scores[i].logprobs},
                        {"greedy", scores[i].greedy}});
    const nlohmann::json all = {
        {"schema", 1}, {"scored", listed}, {"tokens", tokens}, {"logprob", sum}, {"perplexity", perplexity}};
    return tell_on(out, "{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  for (size_t i = 0; i < texts.size(); ++i)
    tell_on(out, "{:10.3f}  {:8.3f} a token{}  {}{}{}\n", scores[i].sum(),
            scores[i].sum() / static_cast<double>(scores[i].logprobs.size()),
            scores[i].greedy ? ", greedy" : "        ", texts[i].given, texts[i].given.empty() ? "" : " | ",
            texts[i].text);
  tell_on(out, "{} text{}, {} tokens: {:.3f} nats, perplexity {:.4g}\n", texts.size(), texts.size() == 1 ? "" : "s",
          tokens, sum, perplexity);
}

}  // namespace

int score(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, const GenerateRequest& request,
          bool json, const DriverOptions& options) {
  check_generates(program.info());
  const std::vector<TextToScore> texts = texts_of(request);
  with_decoder(rank, program, run, files, [&](const DecoderShape& shape, const Vocabulary& vocabulary) {
    std::vector<Scored> unscored;
    for (const TextToScore& text : texts) unscored.push_back(numbers_of(text, shape, vocabulary));
    std::vector<size_t> lengths;
    for (const Scored& one : unscored) lengths.push_back(one.tokens.size());
    std::vector<std::string> given;
    for (const TextToScore& text : texts) given.push_back(text.given);
    const std::vector<Round> rounds = plan_rounds(run, shape, lengths, given);
    return [&, unscored, rounds](Decoder& decoder) {
      std::vector<Scored> scores = unscored;
      for (const Round& round : rounds) score_round(decoder, round, scores);
      report(texts, scores, json, options.out);
    };
  });
  return 0;
}

}  // namespace meshrt
