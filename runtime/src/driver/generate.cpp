// What a trained model writes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>

#include "driver/decoder.h"
#include "driver/given_lines.h"
#include "driver/model_files.h"
#include "driver/same_job.h"
#include "driver/start.h"
#include "generation/rounds.h"
#include "generation/writer.h"
#include "meshrt/failure.h"
#include "meshrt/generation.h"
#include "system/tell.h"

namespace meshrt {

namespace {

using Prompts = std::vector<std::string>;

std::vector<Sequence> sequences_of(const Prompts& prompts, const DecoderShape& shape, const Vocabulary& vocabulary,
                                   int64_t tokens) {
  std::vector<Sequence> sequences;
  for (const std::string& prompt : prompts) {
    Sequence one{vocabulary.encode(shape.given.empty() ? prompt : ""), 0, static_cast<int64_t>(sequences.size())};
    one.prompt = one.tokens.size();
    const int64_t more = std::max<int64_t>(1, tokens), longest = static_cast<int64_t>(one.prompt) + more;
    if (longest > shape.positions)
      throw Failure(Cause::data,
                    fmt::format("prompt `{}` has {} positions, and with {} more there are {}: the model has {}", prompt,
                                one.prompt, more, longest, shape.positions));
    sequences.push_back(std::move(one));
  }
  return sequences;
}

/// One round: the sequences stand side by side at one position after the other.
void write_on(Decoder& decoder, Writer& writer) {
  std::vector<Sequence>& sequences = writer.sequences();
  for (size_t position = 0; writer.goes_on(); ++position) {
    for (size_t i = 0; i < sequences.size(); ++i)
      if (position < sequences[i].tokens.size()) decoder.set(i, position, sequences[i].tokens[position]);
    decoder.read(static_cast<int64_t>(position));
    for (size_t i = 0; i < sequences.size(); ++i)
      if (position < sequences[i].tokens.size()) writer.take(i, position, decoder.logits(i));
  }
}

void report(const Prompts& prompts, const std::vector<Sequence>& sequences, const Vocabulary& vocabulary, bool goes_on,
            double seconds, bool json, std::FILE* out) {
  size_t made = 0;
  for (const Sequence& one : sequences) made += one.made().size();
  if (json) {
    nlohmann::json listed = nlohmann::json::array();
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Sequence& one = sequences[i];
      listed.push_back({{"prompt", prompts[i]},
                        {"text", vocabulary.decode(one.made())},
                        {"tokens", std::vector<int32_t>(one.made().begin(), one.made().end())},
                        {"logprob", std::accumulate(one.logprobs.begin(), one.logprobs.end(), 0.0)},
                        {"logprobs", one.logprobs},
                        {"prompt_logprobs", one.given}});
    }
    const nlohmann::json all = {
        {"schema", 1}, {"generated", listed}, {"tokens_per_second", static_cast<double>(made) / seconds}};
    tell_on(out, "{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  if (prompts.size() > 1)
    for (size_t i = 0; i < prompts.size(); ++i)
      tell_on(out, "{}{}\n", goes_on ? prompts[i] : "", vocabulary.decode(sequences[i].made()));
  else tell_on(out, "\n");
  std::fflush(out);  // the text first, where both go to one file
  tell("{} tokens, {:.1f} a second\n", made, static_cast<double>(made) / seconds);
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

int generate(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, const GenerateRequest& request,
             bool json, const DriverOptions& options) {
  const ProgramInfo& info = program.info();
  check_generates(info);
  const Prompts prompts = prompts_of(request);
  heed_timeout(rank, run);
  check_same_job(rank, info, run);
  prepare(rank, program);
  const DecoderShape shape = DecoderShape::of(info, program.tensors());
  const Vocabulary vocabulary(run, shape.input, shape.vocabulary);
  std::vector<Sequence> sequences = sequences_of(prompts, shape, vocabulary, request.tokens);
  std::vector<size_t> lengths;
  for (const Sequence& one : sequences) lengths.push_back(one.prompt);
  struct Round {
    std::vector<size_t> numbers;
    std::vector<int32_t> given;
  };
  std::vector<Round> rounds;
  for (std::vector<size_t>& numbers : rounds_of(lengths, static_cast<size_t>(shape.sequences))) {
    Prompts of_round;
    for (const size_t i : numbers) of_round.push_back(prompts[i]);
    rounds.push_back({std::move(numbers), given_lines(run, shape, of_round)});
  }
  const LoadedModel model = load_model(rank, program, run, files);
  Decoder decoder(rank, program, {.step = model.moment.step, .steps = model.moment.steps, .seed = model.moment.seed});
  if (rank.rank() != 0) {
    decoder.follow();
    return 0;
  }
  if (!model.note.empty()) tell("note: {}\n", model.note);
  const bool goes_on = shape.given.empty(), shown = !json && prompts.size() == 1;
  if (shown && goes_on) tell_on(options.out, "{}", prompts[0]);
  const auto start = std::chrono::steady_clock::now();
  for (const Round& round : rounds) {
    std::vector<Sequence> beginnings;
    for (const size_t i : round.numbers) beginnings.push_back(std::move(sequences[i]));
    decoder.begin(round.given);
    Writer writer(request, vocabulary, shape.positions, shown ? options.out : nullptr, std::move(beginnings));
    write_on(decoder, writer);
    for (size_t k = 0; k < round.numbers.size(); ++k) sequences[round.numbers[k]] = std::move(writer.sequences()[k]);
  }
  decoder.end();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report(prompts, sequences, vocabulary, goes_on, seconds.count(), json, options.out);
  return 0;
}

}  // namespace meshrt
