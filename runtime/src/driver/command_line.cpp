#include "driver/command_line.h"

#include <fmt/format.h>

#include "files/yaml_reader.h"
#include "meshrt/failure.h"
#include "meshrt/run_file.h"
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

int rank_count(std::string_view word) {
  const auto count = whole_number(word);
  if (!count || *count < 1 || *count > 1'000'000)
    throw wrong(fmt::format("-n must be a number of ranks, not `{}`", word));
  return static_cast<int>(*count);
}

}  // namespace

CommandLine parse_command_line(std::span<const char* const> arguments) {
  static const std::vector<std::string> options = {"--help",    "--info",  "--json",    "--dry-run",
                                                   "--threads", "--color", "--run-dir", "-n"};
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    // "-n 4", "-n4" and "-n=4" are one
    const auto value = [&](std::string_view option) -> std::string_view {
      std::string_view rest = word.substr(option.size());
      if (!rest.empty()) return rest[0] == '=' ? rest.substr(1) : rest;
      if (++i == arguments.size()) throw wrong(fmt::format("{} needs a value", option));
      return arguments[i];
    };
    if (word == "--help" || word == "-h") line.help = true;
    else if (word == "--info") line.info = true;
    else if (word == "--json") line.json = true;
    else if (word == "--dry-run") line.dry_run = true;
    else if (word == "--threads") line.threads = true;
    else if (word == "--color" || word.starts_with("--color=")) line.color = color_named(value("--color"));
    else if (word == "--run-dir" || word.starts_with("--run-dir=")) line.run_folder = value("--run-dir");
    else if (word.starts_with("-n")) line.ranks = rank_count(value("-n"));
    else if (word.starts_with("-"))
      throw wrong(fmt::format("unknown option `{}`: {}", word, suggestion(word, options, "options")));
    else if (is_override(word)) line.overrides.emplace_back(word);
    else if (line.run_file.empty()) line.run_file = word;
    else throw wrong(fmt::format("one run file is expected, but both `{}` and `{}` are given", line.run_file, word));
  }
  if (line.json && !line.info) throw wrong("--json goes with --info");
  return line;
}

std::string help_text(const std::string& name) {
  return fmt::format(
      R"(usage: {0} [RUN.yaml] [key=value...] [options]

  {0} -n 2 run.yaml                    train with two ranks on this machine
  {0} -n 2 run.yaml train.steps=100    the same, one key of the run file changed
  meshrun -n 2 {0} run.yaml            the same through the launcher

Without RUN.yaml the run file {0}.yaml beside this program is used (or {0}.json), else the one beside the spec.

options:
  -n N             start N ranks here; N must be the size of the mesh
  --threads        run the ranks as threads of one process
  --dry-run        start, allocate, read one batch, one all-reduce, end
  --info [--json]  what this program was compiled for
  --run-dir DIR    the folder of this run (default: runs/{0}-0001 and so on); none: no folder. What an
                   earlier run has left in DIR is moved to DIR/earlier-0001
  --color WHEN     auto, always or never
  --help           this text

environment: MESHRT_TRANSPORT (arena or ucx), MESHRT_TIMEOUT (seconds), MESHRT_RUNS (in place of runs; none), NO_COLOR
exit codes: 0 done, 1 a mistake in run file or data, 2 wrong usage, 3 the run failed, 130 interrupted,
75 stopped by a signal (TERM, USR1, INT, HUP) or train.max_time with a checkpoint: the same command goes on from it
)",
      name);
}

}  // namespace meshrt
