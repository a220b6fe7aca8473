// command_line.h: the options of an emitted program.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "meshrt/driver.h"
#include "meshrt/generation.h"

namespace meshrt {

/// What a program is asked to do with its model: `gpt run.yaml` trains it, other commands are the first word.
enum class Command { train, evaluate, predict, generate, score };

struct CommandLine {
  Command command = Command::train;
  ModelFiles model;          ///< of commands that do not train
  GenerateRequest generate;  ///< of generate and score
  bool help = false, info = false, json = false, dry_run = false, threads = false;
  int ranks = 0;            ///< -n; 0: not given
  int threads_of_rank = 0;  ///< --threads-per-rank; 0: not given
  Color color = Color::automatic;
  std::string run_file;                ///< path; empty: not given
  std::string run_folder;              ///< --run-dir; empty: not given
  std::string out;                     ///< --out, of predict
  std::vector<std::string> overrides;  ///< key=value
};

/// The same for the ranks that this process starts, but for the run file and their number.
std::vector<std::string> words_for_ranks(const CommandLine&);

/// Throws Failure (Cause::usage) for an unknown option, a wrong value or a second run file.
CommandLine parse_command_line(std::span<const char* const> arguments);

/// The text of --help. `name` is the program's.
std::string help_text(const std::string& name);

}  // namespace meshrt
