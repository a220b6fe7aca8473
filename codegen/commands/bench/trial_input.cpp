#include "codegen/commands/bench/trial_input.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/write_file.h"
#include "codegen/interpret/compare.h"
#include "meshrt/failure.h"
#include "meshrt/npy.h"
#include "meshrt/run_file.h"

namespace mesh {

namespace {

constexpr int64_t traced_steps = 3;

bool has_every_input(const meshrt::RunFile& run, const Graph& graph) {
  return std::ranges::all_of(graph.stored, [&](const Stored& stored) {
    return stored.kind != StoredKind::input || std::ranges::count(run.data, stored.path, &meshrt::Source::input) > 0;
  });
}

/// `data` of the user's run file, its paths from any folder; nothing where an input or a file is not there. What the
/// command line names must be there.
std::optional<YAML::Node> data_of_user(const Session& session, const SpecOptions& spec, const Compiled& compiled) {
  std::optional<meshrt::RunFile> run;
  try {
    run = meshrt::read_run_file(spec.run_file(), spec.overrides());
  } catch (const meshrt::Failure&) {
    const auto names_data = [](const std::string& one) { return one.starts_with("data."); };
    if (std::ranges::any_of(spec.overrides(), names_data)) throw;  // on the command line it was meant
    meshrt::read_run_file(spec.run_file(), spec.overrides(), meshrt::NamedFiles::may_lack);
    return std::nullopt;  // a file is not there
  }
  if (!has_every_input(*run, compiled.sharded().graph)) return std::nullopt;
  check_fits(session, compiled, *run, meshrt::NamedFiles::must_exist);
  return YAML::Load(run->resolved)["data"];
}

YAML::Node random_data(const Program& program, const ScratchFolder& scratch) {
  YAML::Node data(YAML::NodeType::Map);
  for (const auto& [input, array] : random_feeds(program, 1)) {
    const std::string file = scratch / (input + ".npy");
    meshrt::write_npy(file, array.type, array.shape, array.data);
    data[input]["file"] = file;
  }
  return data;
}

}  // namespace

bool write_trial_input(const Session& session, const SpecOptions& spec, const Compiled& compiled, int64_t steps,
                       bool random, const ScratchFolder& scratch) {
  const std::optional<YAML::Node> given = random ? std::nullopt : data_of_user(session, spec, compiled);
  YAML::Node run;
  run["data"] = given ? *given : random_data(compiled.program, scratch);
  const int64_t last = warm_up_steps + steps;
  run["train"]["steps"] = last;
  run["log"]["every"] = 1;
  run["log"]["profile"] = true;
  run["log"]["nonfinite"] = "ignore";
  run["log"]["trace"]["steps"] = fmt::format("{}..{}", std::max(warm_up_steps, last - traced_steps) + 1, last);
  run["log"]["trace"]["file"] = (scratch / "trace.json").string();
  YAML::Emitter text;
  text << run;
  write_file(scratch / "run.yaml", std::string(text.c_str()) + "\n");
  return !given;
}

}  // namespace mesh
