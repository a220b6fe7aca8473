#include "codegen/commands/bench/trial.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "codegen/commands/bench/trial_input.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/program_cache.h"
#include "codegen/emit/child_process.h"
#include "meshrt/failure.h"

namespace mesh {

namespace fs = std::filesystem;
using meshrt::Cause, meshrt::Failure;

ScratchFolder::ScratchFolder() {
  std::string made = fs::temp_directory_path() / "meshwright-bench-XXXXXX";
  if (mkdtemp(made.data()) == nullptr)
    throw Failure(Cause::environment, fmt::format("cannot make the folder {}", made));
  path_ = made;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

double Trial::median() const {
  std::vector<double> sorted = seconds;
  std::ranges::nth_element(sorted, sorted.begin() + std::ssize(sorted) / 2);
  return sorted[sorted.size() / 2];
}

std::pair<size_t, size_t> Trial::unlike_ranks() const {
  const auto [least, most] = std::ranges::minmax_element(ranks, {}, &StepParts::computing);
  return {most - ranks.begin(), least - ranks.begin()};
}

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json json_in(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// Steps of rank 0 behind those to warm up. What happens beside a few of them (a file written, another process) leaves
/// the parts alone: those are of the half of the steps that lie about the median.
void read_steps(const fs::path& path, Trial& trial) {
  std::vector<std::pair<double, StepParts>> steps;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json step = nlohmann::json::parse(line);
    if (!step.contains("breakdown_ms") || step["step"].get<int64_t>() <= warm_up_steps) continue;
    trial.seconds.push_back(step["seconds_per_step"]);
    StepParts& parts = steps.emplace_back(trial.seconds.back(), StepParts()).second;
    for (const auto& [name, part] : step_parts) parts.*part = step["breakdown_ms"][name].get<double>() * 1e-3;
  }
  if (steps.empty()) throw std::logic_error("the program has logged no step");
  std::ranges::sort(steps, {}, &std::pair<double, StepParts>::first);
  const std::span middle = std::span(steps).subspan(steps.size() / 4, (steps.size() + 1) / 2);
  for (const auto& [seconds, parts] : middle)
    for (const auto& [name, part] : step_parts) trial.parts.*part += parts.*part / static_cast<double>(middle.size());
}

/// What each rank did in the steps that were traced, as parts of a step as long as the median: those may have been
/// longer.
void read_ranks(const fs::path& path, Trial& trial) {
  const std::map<std::string, double StepParts::*> parts = {{"product", &StepParts::products},
                                                            {"attention", &StepParts::attention},
                                                            {"nest", &StepParts::nests},
                                                            {"collective", &StepParts::collectives},
                                                            {"waiting", &StepParts::waiting}};
  std::vector<double> whole;  // seconds of these steps
  const nlohmann::json trace = json_in(path);
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const size_t rank = event["pid"];
    trial.ranks.resize(std::max(trial.ranks.size(), rank + 1));
    whole.resize(trial.ranks.size());
    const std::string category = event["cat"];
    const double seconds = event["dur"].get<double>() * 1e-6;
    if (category == "step") whole[rank] += seconds;
    if (const auto part = parts.find(category); part != parts.end()) trial.ranks[rank].*part->second += seconds;
    // The call that waits is there too.
    if (category == "waiting" && event["name"] != "waiting") trial.ranks[rank].collectives -= seconds;
  }
  for (size_t rank = 0; rank < whole.size(); ++rank)
    for (const auto& [name, part] : step_parts)
      trial.ranks[rank].*part *= whole[rank] > 0 ? trial.median() / whole[rank] : 0;
}

void read_summary(const fs::path& path, Trial& trial) {
  const nlohmann::json summary = json_in(path);
  trial.memory = summary["measured"]["memory_bytes"];
  trial.bytes = summary["measured"]["bytes_sent_per_step"];
  // Lines have shares of what the rank has done in all steps, waiting left out.
  const double done = trial.parts.computing() + trial.parts.collectives;
  for (const nlohmann::json& line : summary.value("lines", nlohmann::json::array())) {  // none of what computes nothing
    const double seconds = line["share"].get<double>() * done;
    trial.lines.push_back({fmt::format("{}:{}", line["file"].get<std::string>(), line["line"].get<int>()), line["text"],
                           seconds, seconds / trial.median()});
  }
}

/// What a program that failed has said last.
std::string last_words(const fs::path& log) {
  std::string text = text_of(log);
  constexpr size_t enough = 4000;
  if (text.size() > enough) text = "...\n" + text.substr(text.find('\n', text.size() - enough) + 1);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

std::optional<Trial> try_steps(const Session& session, const SpecOptions& spec, const Compiled& compiled,
                               const ScratchFolder& scratch) {
  const std::optional<fs::path> program =
      cached_program(program_name(spec), emitted_text(session, spec, compiled), texts_of_run(session, compiled));
  if (!program) return std::nullopt;
  Trial trial;
  std::vector<std::string> command{program->string(), scratch / "run.yaml", "--color=never",
                                   fmt::format("--run-dir={}", (scratch / "run").string())};
  if (const int64_t ranks = compiled.sharded().layout.mesh.ranks(); ranks > 1)
    command.insert(command.end(), {"-n", std::to_string(ranks)});
  const fs::path log = scratch / "log.txt";
  const auto [status, signal] = run_child(command, log);
  if (signal != 0) return std::nullopt;
  if (status != 0)
    throw Failure(
        WIFEXITED(status) && WEXITSTATUS(status) == meshrt::exit_code(Cause::data) ? Cause::data : Cause::environment,
        fmt::format("the program has failed, and said\n{}", last_words(log)));
  read_steps(scratch / "run" / "metrics.jsonl", trial);
  read_ranks(scratch / "trace.json", trial);
  read_summary(scratch / "run" / "summary.json", trial);
  return trial;
}

}  // namespace mesh
