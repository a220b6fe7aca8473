// generate.cpp: `meshc generate SPEC --params CKPT --prompt TEXT`: what a trained model writes. The program of the
// entry is interpreted, its ranks are threads.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "codegen/commands/command.h"
#include "codegen/commands/continuation.h"
#include "codegen/commands/model_arrays.h"
#include "codegen/commands/model_options.h"
#include "codegen/commands/session.h"
#include "codegen/interpret/interpret.h"
#include "meshrt/failure.h"
#include "meshrt/run_file.h"
#include "meshrt/tokenizer.h"

namespace mesh {

namespace {

struct GenerateOptions {
  OutputOptions output;
  SpecOptions spec;
  ModelOptions model;
  std::vector<std::string> prompts;
  std::string file;
  bool greedy = false;
  WriteOptions write;
};

[[noreturn]] void refuse(const std::string& what) { throw meshrt::Failure(meshrt::Cause::data, what); }

std::vector<std::string> prompts_of(const GenerateOptions& options) {
  std::vector<std::string> prompts = options.prompts;
  if (!options.file.empty()) {
    std::ifstream file(options.file, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    meshrt::for_each_line(text, [&](std::string_view line) { prompts.emplace_back(line); });
  }
  if (prompts.empty())
    throw UsageError("nothing to go on from: `--prompt TEXT`, or `-f FILE` with a prompt on each line");
  return prompts;
}

// As many sequences as there are prompts.
std::optional<Compiled> compile_for(Session& session, size_t prompts) {
  session.request.generate = true;
  std::optional<Compiled> compiled = session.compile();
  if (!compiled) return compiled;
  const Continued shape(compiled->program.sharded.graph);
  if (shape.sequences == static_cast<int64_t>(prompts)) return compiled;
  if (shape.batch.empty())
    throw UsageError(fmt::format("the model continues one prompt at a time, and {} are given", prompts));
  session.request.set[shape.batch] = std::to_string(prompts);
  return session.compile();
}

// What an encoder reads, filled up as the run file says.
meshrt::Array lines(const meshrt::RunFile& run, const Continued& shape, const std::vector<std::string>& prompts) {
  const Vocabulary vocabulary(run, shape.given, shape.given_vocabulary);
  const auto width = static_cast<size_t>(shape.given_positions);
  std::vector<int32_t> numbers(prompts.size() * width, vocabulary.pad());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t> line = vocabulary.encode(prompts[i], true);
    if (line.size() > width)
      refuse(fmt::format("prompt `{}` has {} positions: `{}` has {}", prompts[i], line.size(), shape.given, width));
    std::ranges::copy(line, numbers.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  const auto* at = reinterpret_cast<const std::byte*>(numbers.data());
  return {meshrt::Type::i32, {shape.sequences, shape.given_positions}, {at, at + numbers.size() * sizeof(int32_t)}};
}

void report(const GenerateOptions& options, const std::vector<std::string>& prompts,
            const std::vector<Sequence>& sequences, const Vocabulary& vocabulary, bool goes_on, double seconds) {
  size_t made = 0;
  for (const Sequence& one : sequences) made += one.made().size();
  if (options.output.json) {
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
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  if (prompts.size() > 1)
    for (size_t i = 0; i < prompts.size(); ++i)
      fmt::print("{}{}\n", goes_on ? prompts[i] : "", vocabulary.decode(sequences[i].made()));
  else fmt::print("\n");
  std::fflush(stdout);  // the text first, where both go to one file
  fmt::print(stderr, "{} tokens, {:.1f} a second\n", made, static_cast<double>(made) / seconds);
}

int generate(GenerateOptions options) {
  options.spec.allowed.emplace_back("idle_ranks");  // one prompt leaves ranks idle: who asks for it knows
  if (options.greedy) options.write.sampling.temperature = 0;
  const std::vector<std::string> prompts = prompts_of(options);
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = compile_for(session, prompts.size());
  if (!compiled) return exit_diagnostics;
  const Graph& graph = compiled->program.sharded.graph;
  const Continued shape(graph);
  const meshrt::RunFile run =
      meshrt::read_run_file(options.spec.run_file(), options.spec.overrides(), meshrt::NamedFiles::may_lack);
  const Vocabulary vocabulary(run, shape.input, shape.vocabulary);

  std::vector<Sequence> sequences;
  int64_t steps = 0;
  for (const std::string& prompt : prompts) {
    Sequence& one = sequences.emplace_back(Sequence{vocabulary.encode(shape.given.empty() ? prompt : ""), 0});
    one.prompt = one.tokens.size();
    const auto longest = static_cast<int64_t>(one.prompt) + std::max<int64_t>(1, options.write.tokens);
    if (longest > shape.positions)
      refuse(fmt::format("prompt `{}` has {} positions, and with {} more there are {}: the model has {}", prompt,
                         one.prompt, std::max<int64_t>(1, options.write.tokens), longest, shape.positions));
    steps = std::max(steps, (options.write.tokens == 0 ? shape.positions : longest) - 1);
  }
  options.write.show = !options.output.json;
  Writer writer(options.write, vocabulary, shape, std::move(sequences));

  InterpretRequest request{compiled->program, &session.sources};
  request.feeds = writer.feeds();
  if (!shape.given.empty()) request.feeds[shape.given] = lines(run, shape, prompts);
  std::set<std::string> caches;  // they begin empty
  for (const Stored& stored : graph.stored)
    if (stored.kind == StoredKind::state && stored.path.starts_with("generate.")) caches.insert(stored.path);
  request.stored = read_model(options.model.files, graph, caches);
  request.steps = steps;
  const std::string logits = graph.outputs.front().name;
  request.next = [&](const Feeds& outputs, Feeds& feeds) { return writer.next(outputs.at(logits), feeds); };
  const bool goes_on = shape.given.empty();
  if (!options.output.json && prompts.size() == 1 && goes_on) fmt::print("{}", prompts[0]);
  const auto begin = std::chrono::steady_clock::now();
  const InterpretResult result = interpret(request);
  if (result.exit_code != 0) return result.exit_code;
  if (std::ranges::any_of(writer.sequences(), [](const Sequence& one) { return !one.ended; })) {
    Feeds feeds;
    writer.next(result.outputs.at(logits), feeds);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  report(options, prompts, writer.sequences(), vocabulary, goes_on, seconds);
  return exit_ok;
}

}  // namespace

Command generate_command() {
  return {
      "generate",
      "write on from a prompt with a trained model",
      "The spec says what is generated: `generate token along seq from logits`. One position is computed at a time;\n"
      "what later ones need of it is kept. Prompts of several lengths go on side by side. Text is read as the run\n"
      "file says of the input: by its tokenizer, else byte by byte. The same seed gives the same text under every\n"
      "layout.",
      {{"meshc generate gpt.mesh --params out/gpt --prompt 'In the beginning' --tokens 100", "from a checkpoint"},
       {"meshc generate gpt.mesh --params out/gpt -f prompts.txt --greedy --json", "a prompt on each line"},
       {"meshc generate gpt.mesh --params out/gpt --prompt 'And ' --temperature 0.8 --top-p 0.95 --seed 7",
        "less freely, and other text"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<GenerateOptions>();
        options->spec.declare(app, true);
        options->model.declare(app);
        app.get_option("--params")->required();
        app.add_option("--prompt", options->prompts, "a text to go on from; several give several")
            ->type_name("TEXT")
            ->take_all()
            ->allow_extra_args(false);
        app.add_option("-f", options->file, "a file with a prompt on each line")
            ->type_name("FILE")
            ->check(CLI::ExistingFile);
        app.add_option("--tokens", options->write.tokens,
                       "how many to write (default: as many as the model has positions)")
            ->type_name("N")
            ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
        CLI::Option* greedy = app.add_flag("--greedy", options->greedy, "always the likeliest");
        const auto number = [&](const char* name, auto& to, const char* meaning, const char* type) {
          return app.add_option(name, to, meaning)->type_name(type)->excludes(greedy);
        };
        number("--temperature", options->write.sampling.temperature, "above 1 more freely, below less (default 1)", "T")
            ->check(CLI::Range(1e-6, 1e6));
        number("--top-k", options->write.sampling.top_k, "only the K likeliest", "K")
            ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
        number("--top-p", options->write.sampling.top_p, "only the likeliest that have this share together", "P")
            ->check(CLI::Range(1e-9, 1.0));
        number("--min-p", options->write.sampling.min_p, "only what has this part of the likeliest one's share", "P")
            ->check(CLI::Range(0.0, 1.0));
        number("--seed", options->write.sampling.seed, "of the random numbers (default 1)", "N");
        app.add_option("--repetition", options->write.sampling.repetition,
                       "above 1: what has been written already becomes less likely (default 1)")
            ->type_name("R")
            ->check(CLI::Range(1e-3, 1e3));
        app.add_option("--stop", options->write.stops, "ends a text that ends so; several may be given")
            ->type_name("TEXT")
            ->take_all()
            ->allow_extra_args(false);
        options->output.declare(app, true);
        return [options] { return generate(*options); };
      }};
}

}  // namespace mesh
