#include "codegen/optimizer/settings.h"

#include <fmt/format.h>

#include <map>

#include "meshrt/optimizer_names.h"

namespace mesh {
namespace {

using Settings = std::vector<std::pair<std::string, double>>;

/// The path of a parameter, of which replicas train one of their own.
std::string path_of(const Graph& graph, StoredId parameter) {
  const Stored& stored = graph.stored[parameter.index];
  return stored.kind == StoredKind::parameter ? stored.path : graph.stored[stored.parameter.index].path;
}

/// "lr.cosine.warmup"; of several schedules of a name the second is "lr.step_2.every". What `train.lr` replaces is
/// ProgramInfo::rate.
void add_rate(Settings& settings, const std::string& whose, const RateOp& rate) {
  std::map<std::string, int> times;
  for (const Schedule& factor : rate.factors) {
    const int time = ++times[factor.name];
    const std::string name = time == 1 ? factor.name : fmt::format("{}_{}", factor.name, time);
    for (const auto& [key, value] : factor.values)
      if (!factor.of_run || (key != "rate" && key != "peak"))
        settings.emplace_back(fmt::format("{}lr.{}.{}", whose, name, key), value);
  }
}

}  // namespace

std::vector<std::pair<std::string, double>> settings_of(const Graph& graph, int64_t sync, const OuterStep& outer) {
  const Objective& objective = *graph.objective;
  Settings settings(objective.values.begin(), objective.values.end());
  settings.emplace_back("frozen", 0);
  if (sync > 0) {
    settings.emplace_back("sync", static_cast<double>(sync));
    settings.emplace_back("outer.lr", outer.rate);
    settings.emplace_back("outer.momentum", outer.momentum);
    settings.emplace_back("outer.nesterov", outer.nesterov ? 1 : 0);
  }
  add_rate(settings, "", objective.rate);
  for (const Objective::Parameter& parameter : objective.parameters) {
    const std::string whose = path_of(graph, parameter.stored) + ":";
    if (graph.stored[parameter.stored.index].frozen) {
      settings.emplace_back(whose + "frozen", 1);
      continue;
    }
    for (const auto& [key, value] : parameter.values)
      if (objective.values.at(key) != value) settings.emplace_back(whose + key, value);
    if (parameter.rate) add_rate(settings, whose, *parameter.rate);
  }
  return settings;
}

}  // namespace mesh
