// What a trained model writes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>

#include "driver/given_lines.h"
#include "driver/with_decoder.h"
#include "driver/write_on.h"
#include "generation/writer.h"
#include "meshrt/failure.h"
#include "meshrt/generation.h"
#include "system/tell.h"

namespace meshrt {

namespace {

using Prompts = std::vector<Prompt>;

/// What was written behind a prompt; by beams, all that were found, of which it is the best.
struct Written {
  Sequence sequence;
  std::vector<Beam> beams = {};
};

/// Of what is longer, with one position more or as many as are asked for, than the model has positions.
Failure too_long(const Prompt& prompt, int64_t length, int64_t more, const DecoderShape& shape) {
  const bool of_prompt = shape.given.empty();
  std::string what = of_prompt ? fmt::format("prompt `{}`", abbreviated(prompt.text)) : "what the text begins with";
  if (!prompt.place.empty()) what = prompt.place + ": " + what;
  const std::string shorten = of_prompt ? "shorten the prompt" : "shorten `--begin`", fewer = "give fewer `--tokens`";
  std::vector<std::string> ways;
  if (length > 1 && more < shape.positions) ways.push_back(shorten);
  if (length < shape.positions) ways.push_back(fewer);
  if (ways.empty()) ways.push_back(fmt::format("{} and {}", shorten, fewer));
  if (!shape.learned) ways.push_back(fmt::format("compile it with `--set {}={}`", shape.along, length + more));
  if (ways.size() > 1) ways.back().insert(0, "or ");
  return {Cause::data, fmt::format("{} has {} position{}, and with {} more there are {}: the model has {}; {}{}", what,
                                   length, length == 1 ? "" : "s", more, length + more, shape.positions,
                                   shape.learned ? fmt::format("its parameters have `{}`, so ", shape.along) : "",
                                   fmt::join(ways, ways.size() > 2 ? ", " : " "))};
}

std::vector<Sequence> sequences_of(const Prompts& prompts, const DecoderShape& shape, const Vocabulary& vocabulary,
                                   const GenerateRequest& request) {
  const std::vector<int32_t> begin = request.begin.empty() ? std::vector<int32_t>{} : vocabulary.pieces(request.begin);
  std::vector<Sequence> sequences;
  for (const auto& [prompt, place] : prompts) {
    Sequence one{vocabulary.encode(shape.given.empty() ? prompt : "", false, place), 0, 0,
                 static_cast<int64_t>(sequences.size())};
    one.prompt = one.tokens.size();
    one.tokens.insert(one.tokens.end(), begin.begin(), begin.end());
    one.forced = one.tokens.size();
    const int64_t more = std::max<int64_t>(1, request.tokens), length = static_cast<int64_t>(one.forced);
    if (length + more > shape.positions) throw too_long({prompt, place}, length, more, shape);
    sequences.push_back(std::move(one));
  }
  return sequences;
}

/// What the program has room for.
void check_fits(const GenerateRequest& request, const DecoderShape& shape) {
  if (!request.begin.empty() && shape.given.empty())
    throw Failure(Cause::usage, fmt::format("--begin is of models that are given one thing and write another; `{}` is "
                                            "written on from its prompt: let the prompt end so",
                                            shape.input));
  if (request.beams > shape.vocabulary)
    throw Failure(Cause::usage, fmt::format("--beams {}: `{}` has {} elements, and a beam for each at most: --beams {}",
                                            request.beams, shape.input, shape.vocabulary, shape.vocabulary));
  if (request.beams <= shape.sequences) return;
  if (shape.batch.empty())
    throw Failure(Cause::usage, fmt::format("--beams {}: `{}` holds one sequence; beams are several: give it a dim "
                                            "that counts them",
                                            request.beams, shape.input));
  throw Failure(Cause::usage,
                fmt::format("--beams {0}: the program has {1} sequence{2} side by side: compile it with "
                            "`--set {3}={0}`",
                            request.beams, shape.sequences, shape.sequences == 1 ? "" : "s", shape.batch));
}

struct Work {
  std::vector<Sequence> sequences;
  std::vector<Round> rounds;
};

Work work_on(const Prompts& prompts, const RunFile& run, const DecoderShape& shape, const Vocabulary& vocabulary,
             const GenerateRequest& request) {
  check_fits(request, shape);
  Work work{sequences_of(prompts, shape, vocabulary, request), {}};
  std::vector<size_t> lengths;
  for (const Sequence& one : work.sequences) lengths.push_back(one.tokens.size());
  std::vector<std::string> texts;
  for (const Prompt& one : prompts) texts.push_back(one.text);
  work.rounds = plan_rounds(run, shape, lengths, texts, static_cast<size_t>(std::max<int64_t>(1, request.beams)));
  return work;
}

nlohmann::json as_json(const Beam& beam, const Sequence& prompt, const Vocabulary& vocabulary, double length_penalty) {
  const std::span<const int32_t> made = std::span(beam.tokens).subspan(prompt.prompt);
  return {{"text", vocabulary.decode(made)},
          {"tokens", std::vector<int32_t>(made.begin(), made.end())},
          {"logprob", beam.sum},
          {"logprobs", beam.logprobs},
          {"worth", beam.worth(length_penalty)}};
}

nlohmann::json as_json(const Prompts& prompts, const std::vector<Written>& all, const Vocabulary& vocabulary,
                       const GenerateRequest& request) {
  nlohmann::json listed = nlohmann::json::array();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Sequence& one = all[i].sequence;
    listed.push_back({{"prompt", prompts[i].text},
                      {"text", vocabulary.decode(one.made())},
                      {"tokens", std::vector<int32_t>(one.made().begin(), one.made().end())},
                      {"logprob", std::accumulate(one.logprobs.begin(), one.logprobs.end(), 0.0)},
                      {"logprobs", one.logprobs},
                      {"prompt_logprobs", one.given}});
    for (const Beam& beam : all[i].beams)
      listed.back()["beams"].push_back(as_json(beam, one, vocabulary, request.length_penalty));
  }
  return listed;
}

/// How fast all was written.
struct Speed {
  size_t tokens = 0;
  double seconds = 0, of_prompts = 0;  // the latter in the former
  double rate() const { return static_cast<double>(tokens) / seconds; }
};

void print_json(const nlohmann::json& listed, const Speed& speed, std::FILE* out) {
  const nlohmann::json object = {
      {"schema", 1}, {"generated", listed}, {"tokens_per_second", speed.rate()}, {"prompt_seconds", speed.of_prompts}};
  tell_on(out, "{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_texts(const Prompts& prompts, const std::vector<Written>& all, const Vocabulary& vocabulary, bool goes_on,
                 std::FILE* out) {
  for (size_t i = 0; i < prompts.size(); ++i)
    tell_on(out, "{}{}\n", goes_on ? prompts[i].text : "", vocabulary.decode(all[i].sequence.made()));
}

/// What is written behind the prompts of a round, to `all`. `show`: where text is printed as it is written; null: not.
void write_round(Decoder& decoder, const Round& round, std::span<const Sequence> sequences,
                 const GenerateRequest& request, const Vocabulary& vocabulary, std::FILE* show,
                 std::vector<Written>& all) {
  std::vector<Sequence> beginnings;
  for (const size_t i : round.numbers) beginnings.push_back(sequences[i]);
  decoder.begin(round.given);
  if (request.beams == 0) {
    Writer writer(request, vocabulary, decoder.shape().positions, show, std::move(beginnings));
    write_on(decoder, writer);
    for (size_t k = 0; k < round.numbers.size(); ++k) all[round.numbers[k]] = {std::move(writer.sequences()[k])};
    return;
  }
  const std::vector<BeamSearch> searches = search(decoder, request, vocabulary, beginnings);
  for (size_t k = 0; k < searches.size(); ++k) {
    Written& one = all[round.numbers[k]];
    one = {std::move(beginnings[k]), searches[k].found()};
    one.sequence.tokens = one.beams.front().tokens;
    one.sequence.logprobs = one.beams.front().logprobs;
  }
}

}  // namespace

void check_generates(const ProgramInfo& info) {
  if (!info.generation.input.empty()) return;
  throw Failure(Cause::usage,
                fmt::format("`{}` does not generate: `meshc build {} --generate` compiles a program that does",
                            info.name, info.spec));
}

void check_trains(const ProgramInfo& info) {
  if (info.generation.input.empty()) return;
  throw Failure(Cause::usage, fmt::format("`{}` was compiled to generate, not to train: start it with `generate "
                                          "--prompt TEXT`",
                                          info.name));
}

void check_prompts(const ProgramInfo& info, std::span<const Tensor> tensors, const RunFile& run,
                   const GenerateRequest& request) {
  const DecoderShape shape = DecoderShape::of(info, tensors);
  work_on(prompts_of(request), run, shape, Vocabulary(run, shape.input, shape.vocabulary), request);
}

int generate(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, const GenerateRequest& request,
             bool json, const DriverOptions& options) {
  check_generates(program.info());
  const Prompts prompts = prompts_of(request);
  with_decoder(rank, program, run, files, [&](const DecoderShape& shape, const Vocabulary& vocabulary) {
    return [&, work = work_on(prompts, run, shape, vocabulary, request)](Decoder& decoder) {
      const auto& [sequences, rounds] = work;
      const bool goes_on = shape.given.empty(), shown = !json && prompts.size() == 1 && request.beams == 0;
      if (shown && goes_on) tell_on(options.out, "{}", prompts[0].text);
      const auto start = std::chrono::steady_clock::now();
      std::vector<Written> all(prompts.size());
      for (const Round& round : rounds)
        write_round(decoder, round, sequences, request, vocabulary, shown ? options.out : nullptr, all);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      Speed speed{0, seconds.count(), decoder.seconds_of_prompts()};
      for (const Written& one : all) speed.tokens += one.sequence.made().size();
      if (json) return print_json(as_json(prompts, all, vocabulary, request), speed, options.out);
      if (shown) tell_on(options.out, "\n");
      else print_texts(prompts, all, vocabulary, goes_on, options.out);
      std::fflush(options.out);  // the text first, where both go to one file
      tell("{} tokens, {:.1f} a second; the prompt{} took {:.3g} ms of it\n", speed.tokens, speed.rate(),
           prompts.size() == 1 ? "" : "s", speed.of_prompts * 1e3);
    };
  });
  return 0;
}

}  // namespace meshrt
