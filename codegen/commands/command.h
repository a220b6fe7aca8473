// command.h: what a subcommand of meshc is: a name, a line and examples for its help, options, and what runs. One file
// a command (check.cpp, build.cpp, ...); commands.cpp lists them.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): it is the library's
class App;
}

namespace mesh {

// Exit codes of meshc.
inline constexpr int exit_ok = 0, exit_diagnostics = 1, exit_usage = 2, exit_run = 3, exit_internal = 70,
                     exit_interrupted = 130;

struct Command {
  std::string name;
  std::string summary;  // one line, for `meshc --help`
  std::string details;  // what the command's own help says below its examples; may be empty
  struct Example {
    std::string line, meaning;
  };
  std::vector<Example> examples;
  /// Declares the options on the subcommand and gives what is run when it was chosen: it returns the exit code.
  std::function<std::function<int()>(CLI::App&)> declare;
};

/// Options that do not go together, or a value that cannot be: exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// All commands, in the order of the help.
std::vector<Command> commands();

Command bench_command();
Command build_command();
Command check_command();
Command ckpt_command();
Command data_command();
Command diff_command();
Command doctor_command();
Command evaluate_command();
Command explain_command();
Command fetch_command();
Command fmt_command();
Command generate_command();
Command ir_command();
Command layout_command();
Command machine_command();
Command new_command();
Command ops_command();
Command plan_command();
Command predict_command();
Command reshard_command();
Command run_command();
Command schedule_command();
Command score_command();
Command slurm_command();
Command verify_command();

}  // namespace mesh
