// options.h: what commands have in common on the command line: where messages go and how they look, and a spec with
// what is set on it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compile.h"

namespace CLI {  // NOLINT(readability-identifier-naming): it is the library's
class App;
}

namespace mesh {

/// --color, --diagnostics and, where a command has data to give, --json.
struct OutputOptions {
  std::string color = "auto";        // auto | always | never
  std::string diagnostics = "text";  // text | json
  bool json = false;

  void declare(CLI::App&, bool with_json);
  /// Whether to colour what goes to this file descriptor (--color, then NO_COLOR, CLICOLOR_FORCE, TERM, a terminal).
  bool colored(int descriptor) const;
};

/// SPEC [LAYOUTS.mesh...] and what is set on it; with `runs` also [RUN.yaml] [key=value...].
struct SpecOptions {
  std::vector<std::string> arguments;
  std::vector<std::string> sets, axes;  // as written: "dim=n", "a=2,b=2"
  std::string layout, model, machine, precision;
  std::string memory;  // of a rank: "16GiB"
  int64_t ranks = 0;   // 0: not given
  std::vector<std::string> warned, allowed, denied;
  bool find_nonfinite = false;
  bool runs = false;  // the command reads a run file

  void declare(CLI::App&, bool with_run_file);

  /// Takes those of the arguments that are neither files nor keys: names of values.
  std::vector<std::string> take_names();
  // What the arguments say; UsageError where they make no sense.
  std::vector<std::string> spec_files() const;
  std::string run_file() const;  // given, else the one beside the spec with the same stem, else empty
  std::vector<std::string> overrides() const;
  CompileRequest request() const;
  /// The command that makes the same program again, without folders: "meshc build gpt.mesh --mesh data=2".
  std::string canonical_command() const;
};

/// A check of an option: what is wrong with a number that is not above 0, or not finite; nothing where it is.
std::string is_positive(const std::string& text);

/// "a=2,b=2" of `--mesh` -> {a: 2, b: 2}; UsageError for what is no whole number from 1.
std::map<std::string, int64_t> parse_sizes(const std::vector<std::string>& texts);
/// The same in the order in which they are written.
std::vector<std::pair<std::string, int64_t>> parse_axes(const std::vector<std::string>& texts);
/// "batch=1_024,eps=-2.5e-4" of `--set` -> {batch: "1024", eps: "-2.5e-4"}; UsageError for what is no number.
std::map<std::string, std::string> parse_numbers(const std::vector<std::string>& texts);

}  // namespace mesh
