// command_line.h: the options of an emitted program.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "meshrt/log.h"

namespace meshrt {

struct CommandLine {
  bool help = false, info = false, json = false, dry_run = false, threads = false;
  int ranks = 0;  ///< -n; 0: not given
  Color color = Color::automatic;
  std::string run_file;                ///< path; empty: not given
  std::string run_folder;              ///< --run-dir; empty: not given
  std::vector<std::string> overrides;  ///< key=value
};

/// Throws Failure (Cause::usage) for an unknown option, a wrong value or a second run file.
CommandLine parse_command_line(std::span<const char* const> arguments);

/// The text of --help. `name` is the program's.
std::string help_text(const std::string& name);

}  // namespace meshrt
