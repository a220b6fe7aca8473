// meshc_mutate verify SPEC --mutate KIND:N   as `meshc verify`, with one fault built into the training step
//
// Collective N is left out (drop), or left out by one rank (skip), or changes places with the next of its group on one
// rank (swap); division by a count N is left out (scale); slice N is read a row off (shift). `list` prints how many
// faults of each kind the step has room for.
#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/run_command.h"
#include "codegen/commands/verify.h"
#include "tests/mutation/trial.h"

namespace {

using namespace mesh;

struct MutateOptions {
  VerifyOptions verify;
  std::string fault;
};

int verify_with_fault(const MutateOptions& options) {
  const std::optional<ComparedPrograms> both = compile_both(options.verify, {});
  if (!both) return exit_diagnostics;
  std::optional<Program> driven;
  if (both->program.sharded.graph.objective) driven = compile_driven(options.verify, {});
  const Verdict verdict = try_fault(options.fault, both->program, both->reference, driven, options.verify.compare);
  if (options.fault == "list") return exit_ok;
  const int code = report(verdict.found, both->title, options.verify.output);
  return code == exit_ok && verdict.refused ? exit_diagnostics : code;
}

Command faulty_verify_command() {
  return {
      "verify", "compare a layout that has a fault with one rank", "", {}, [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<MutateOptions>();
        options->verify.declare(app);
        app.add_option("--mutate", options->fault, "the fault, or list")->type_name("KIND:N")->required();
        return [options] { return verify_with_fault(*options); };
      }};
}

}  // namespace

int main(int argc, char** argv) { return run_command({faulty_verify_command()}, argc, argv); }
