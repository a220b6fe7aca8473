#include "driver/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "files/yaml_reader.h"
#include "meshrt/failure.h"
#include "meshrt/run_file.h"
#include "meshrt/threads.h"
#include "system/suggest.h"

namespace meshrt {

namespace {

Failure wrong(const std::string& what) { return {Cause::usage, what + "\nsee --help"}; }

Color color_named(std::string_view word) {
  if (word == "auto") return Color::automatic;
  if (word == "always") return Color::always;
  if (word == "never") return Color::never;
  throw wrong(fmt::format("--color must be auto, always or never, not `{}`", word));
}

constexpr std::pair<std::string_view, Command> commands[] = {{"evaluate", Command::evaluate},
                                                             {"predict", Command::predict},
                                                             {"generate", Command::generate},
                                                             {"score", Command::score}};

/// Options that a command has beside the common ones.
std::span<const GenerateOption> options_of(Command command) {
  if (command == Command::generate) return generate_options();
  if (command == Command::score) return score_options();
  return {};
}

const GenerateOption* option_of(Command command, std::string_view word) {
  for (const GenerateOption& option : options_of(command))
    if (word.starts_with(option.name) &&
        (word.size() == std::string_view(option.name).size() || word[std::string_view(option.name).size()] == '='))
      return &option;
  return nullptr;
}

/// "generate and score": who has an option of that name; empty: no command.
std::string commands_with(std::string_view word) {
  std::vector<std::string_view> names;
  for (const auto& [name, command] : commands)
    if (option_of(command, word) != nullptr) names.push_back(name);
  return fmt::format("{}", fmt::join(names, " and "));
}

int count_of(std::string_view option, std::string_view things, int most, std::string_view word) {
  const auto count = whole_number(word);
  if (!count || *count < 1 || *count > most)
    throw wrong(fmt::format("{} must be a number of {}, not `{}`", option, things, word));
  return static_cast<int>(*count);
}

/// Options that go with other commands than the one that is given for.
void check_command(const CommandLine& line) {
  const bool trains = line.command == Command::train;
  if (line.json && !line.info && trains) throw wrong("--json goes with --info, evaluate, predict, generate and score");
  if (!trains && (line.dry_run || !line.run_folder.empty())) throw wrong("--dry-run and --run-dir are of training");
  if (trains && (!line.model.paths.empty() || !line.model.fresh.empty() || !line.model.names.empty()))
    throw wrong(
        "--params, --fresh and --names go with evaluate, predict, generate and score; a run that trains is given "
        "`train.params`");
  if ((line.command == Command::predict) == line.out.empty())
    throw wrong(line.out.empty() ? "predict needs `--out DIR`: where do the values go?" : "--out goes with predict");
}

}  // namespace

CommandLine parse_command_line(std::span<const char* const> arguments) {
  static const std::vector<std::string> options = {
      "--help",   "--info",  "--json",  "--dry-run", "--threads", "--color",           "--run-dir",
      "--params", "--fresh", "--names", "--out",     "-n",        "--threads-per-rank"};
  CommandLine line;
  const auto command = std::ranges::find(commands, arguments.empty() ? "" : std::string_view(arguments[0]),
                                         &std::pair<std::string_view, Command>::first);
  const bool named = command != std::end(commands);
  if (named) line.command = command->second;
  std::vector<std::string> known = options;
  for (const GenerateOption& option : options_of(line.command)) known.emplace_back(option.name);
  for (size_t i = named ? 1 : 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    const auto is = [&](std::string_view option) {
      return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
    };
    // "-n 4", "-n4" and "-n=4" are one
    const auto value = [&](std::string_view option) -> std::string_view {
      std::string_view rest = word.substr(option.size());
      if (!rest.empty()) return rest[0] == '=' ? rest.substr(1) : rest;
      if (++i == arguments.size()) throw wrong(fmt::format("{} needs a value", option));
      return arguments[i];
    };
    if (const GenerateOption* own = option_of(line.command, word))
      set_option(line.generate, *own, std::string(*own->type ? value(own->name) : ""));
    else if (const std::string others = commands_with(word); !others.empty())
      throw wrong(fmt::format("{} goes with {}", word.substr(0, word.find('=')), others));
    else if (word == "--help" || word == "-h") line.help = true;
    else if (word == "--info") line.info = true;
    else if (word == "--json") line.json = true;
    else if (word == "--dry-run") line.dry_run = true;
    else if (word == "--threads") line.threads = true;
    else if (is("--threads-per-rank"))
      line.threads_of_rank = count_of("--threads-per-rank", "threads", most_threads, value("--threads-per-rank"));
    else if (is("--color")) line.color = color_named(value("--color"));
    else if (is("--run-dir")) line.run_folder = value("--run-dir");
    else if (is("--params")) line.model.paths.emplace_back(value("--params"));
    else if (is("--fresh")) line.model.fresh.emplace_back(value("--fresh"));
    else if (is("--names")) line.model.names = value("--names");
    else if (is("--out")) line.out = value("--out");
    else if (word.starts_with("-n")) line.ranks = count_of("-n", "ranks", 1'000'000, value("-n"));
    else if (word.starts_with("-"))
      throw wrong(fmt::format("unknown option `{}`: {}", word, suggestion(word, known, "options")));
    else if (is_override(word)) line.overrides.emplace_back(word);
    else if (line.run_file.empty()) line.run_file = word;
    else throw wrong(fmt::format("one run file is expected, but both `{}` and `{}` are given", line.run_file, word));
  }
  check_command(line);
  return line;
}

std::vector<std::string> words_for_ranks(const CommandLine& line) {
  std::vector<std::string> words;
  for (const auto& [name, command] : commands)
    if (command == line.command) words.emplace_back(name);
  words.insert(words.end(), line.overrides.begin(), line.overrides.end());
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("{}={}", option, value));
  };
  for (const std::string& path : line.model.paths) add("--params", path);
  for (const std::string& pattern : line.model.fresh) add("--fresh", pattern);
  add("--names", line.model.names);
  add("--run-dir", line.run_folder);
  add("--out", line.out);
  words.insert(words.end(), line.generate.given.begin(), line.generate.given.end());
  if (line.json) words.emplace_back("--json");
  if (line.dry_run) words.emplace_back("--dry-run");
  if (line.color != Color::automatic)
    words.emplace_back(line.color == Color::always ? "--color=always" : "--color=never");
  return words;
}

std::string help_text(const std::string& name) {
  const auto listed = [](std::span<const GenerateOption> options) {
    std::string lines;
    for (const GenerateOption& option : options)
      lines += fmt::format("  {:<16} {}\n", fmt::format("{} {}", option.name, option.type), option.meaning);
    return lines;
  };
  return fmt::format(
      R"(usage: {0} [evaluate | predict | generate | score] [RUN.yaml] [key=value...] [options]

  {0} -n 2 run.yaml                    train with two ranks on this machine
  {0} -n 2 run.yaml train.steps=100    the same, one key of the run file changed
  meshrun -n 2 {0} run.yaml            the same through the launcher
  {0} evaluate -n 2 run.yaml           metrics over what the run file names `validation`, without training
  {0} predict -n 2 run.yaml --out DIR  values for every sample of `data`, if {0} was built with `--predict NAME`
  {0} generate -n 2 --prompt TEXT      what the model writes on, if {0} was built with `--generate`
  {0} score -n 2 -f FILE               how likely the model says texts are, if it was built so

Without RUN.yaml the run file {0}.yaml beside this program is used (or {0}.json), else the one beside the spec.

options:
  -n N             start N ranks here; N must be the size of the mesh
  --threads        run the ranks as threads of one process
  --threads-per-rank N  compute with N threads in each rank (default 1); the same bits for every number
  --dry-run        start, allocate, read one batch, one all-reduce, end
  --info           what this program was compiled for
  --run-dir DIR    the folder of this run (default: runs/{0}-0001 and so on); none: no folder. What an
                   earlier run has left in DIR is moved to DIR/earlier-0001
  --params PATH    of evaluate, predict, generate and score: a checkpoint, or a safetensors file with the parameters; may be given several times
                   (default: the latest of `checkpoint.dir`)
  --fresh PATTERN  parameters that begin as the spec says, whether the files have them or not
  --names FILE     a YAML map: what the parameters are called there
  --out DIR        of predict: the folder for the values, as npy files
  --json           of --info, evaluate, predict, generate and score: print the result as JSON
  --color WHEN     auto, always or never
  --help           this text

options of generate:
{1}
options of score:
{2}
environment: MESHRT_TRANSPORT (arena or ucx), MESHRT_TIMEOUT (seconds), MESHRT_THREADS (--threads-per-rank), MESHRT_RUNS (in place of runs; none), NO_COLOR
exit codes: 0 done, 1 a mistake in run file or data, 2 wrong usage, 3 the run failed, 130 interrupted,
75 stopped by a signal (TERM, USR1, INT, HUP) or train.max_time with a checkpoint: the same command goes on from it
)",
      name, listed(generate_options()), listed(score_options()));
}

}  // namespace meshrt
