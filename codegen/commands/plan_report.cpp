#include "codegen/commands/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "codegen/commands/plan_facts.h"
#include "codegen/commands/plan_pipeline.h"
#include "codegen/commands/table.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/cost.h"
#include "codegen/layout/predict.h"
#include "codegen/layout/rules.h"
#include "codegen/program/exposed.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

using Json = nlohmann::ordered_json;

/// What a limit of the budget is at: a number of bytes or of collectives, or their counts by kind.
Json at_of(const LimitState& state) {
  if (state.limit.what != Limit::What::counts) return state.at;
  Json counts = Json::object();
  for (const auto& [kind, count] : state.counts) counts[name_of(kind)] = count;
  return counts;
}

Json budget_of(const Compiled& compiled, const SourceMap& sources) {
  Json limits = Json::array();
  for (const LimitState& state : compiled.budget)
    limits.push_back({{"limit", state.limit.text},
                      {"at", at_of(state)},
                      {"holds", state.holds},
                      {"file", sources.file_name(state.limit.span)},
                      {"line", sources.begin(state.limit.span).line}});
  return limits;
}

std::string budget_text(const Compiled& compiled) {
  if (compiled.budget.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const LimitState& state : compiled.budget)
    rows.push_back({"  " + state.limit.text, at_text(state), state.holds ? "" : "broken"});
  return "\nbudget\n" + in_columns(rows);
}

/// What stands for `auto`, with what each line is worth.
std::string found_text(const Compiled& compiled) {
  if (!compiled.found) return "";
  const FoundLayout& found = *compiled.found;
  std::vector<std::vector<std::string>> rows;
  for (const FoundLayout::Line& line : found.lines) rows.push_back({"  " + line.text, line.cost});
  return fmt::format("found by search, {}\n{}\n", how_sure(found), in_columns(rows));
}

/// Rules that no spec says, with what asks for them.
std::string added_text(const ShardedGraph& sharded) {
  std::vector<std::vector<std::string>> rows;
  for (const Rule* rule : added_rules(sharded.layout))
    rows.push_back({"  " + rule_text(sharded.graph, sharded.layout.mesh, *rule), rule->because});
  return rows.empty() ? "" : fmt::format("added by the compiler\n{}\n", in_columns(rows));
}

Json collectives_json(const MeshShape& mesh, const Prediction& prediction, const SourceMap& sources) {
  Json all = Json::array();
  for (const PlannedCollective& c : prediction.collectives) {
    Json axes = Json::array();
    for (AxisId axis : c.axes) axes.push_back(mesh.axes[axis].name);
    all.push_back({{"kind", name_of(c.kind)},
                   {"axes", axes},
                   {"group_size", c.group},
                   {"tensor", c.tensor},
                   {"bytes", c.bytes},
                   {"count", c.count},
                   {"sending", c.sending},
                   {"seconds", c.seconds},
                   {"phase", c.phase},
                   {"call", c.call},
                   {"file", sources.file_name(c.span)},
                   {"line", line_of(sources, c.span)},
                   {"in", c.in_call},
                   {"reason", c.reason}});
  }
  return all;
}

}  // namespace

Json found_json(const FoundLayout& found) {
  Json json{{"rules", Json::array()}, {"tried", found.tried}, {"proved", found.proved}};
  for (const FoundLayout::Line& line : found.lines) json["rules"].push_back({{"rule", line.text}, {"why", line.cost}});
  return json;
}

Json plan_json(const Compiled& compiled, const SourceMap& sources) {
  const ShardedGraph& sharded = compiled.sharded();
  const Graph& graph = sharded.graph;
  const MeshShape& mesh = sharded.layout.mesh;
  const Prediction prediction = predict(compiled.program);
  Json plan{{"schema", 1},
            {"layout", sharded.layout.name},
            {"machine", sharded.machine.name},
            {"precision", compiled.precision}};
  plan["mesh"] = {{"name", mesh.name}, {"ranks", mesh.ranks()}, {"axes", Json::object()}};
  for (const MeshAxis& axis : mesh.axes) plan["mesh"]["axes"][axis.name] = axis.size;
  if (compiled.found) plan["found"] = found_json(*compiled.found);
  for (const Rule* rule : added_rules(sharded.layout))
    plan["added"].push_back({{"rule", rule_text(graph, mesh, *rule)}, {"why", rule->because}});
  plan["tensors"] = Json::array();
  for (const PlannedTensor& tensor : planned_tensors(graph))
    plan["tensors"].push_back(tensor_json(sharded, sources, tensor));
  plan["collectives"] = collectives_json(mesh, prediction, sources);
  if (const Entry* outer = outer_step_of(compiled)) {
    const Prediction after = predict(outer->sharded);
    plan["outer_step"] = {{"after_steps", outer->after_steps},
                          {"communication_bytes", bytes_sent(after)},
                          {"communication_seconds", after.communication_seconds},
                          {"collectives", collectives_json(mesh, after, sources)}};
  }
  plan["memory"] = memory_json(compiled.program);
  if (const Json ranks = memory_of_ranks_json(compiled.program); !ranks.is_null()) plan["memory"]["ranks"] = ranks;
  plan["budget"] = budget_of(compiled, sources);
  if (const auto& room = compiled.room)
    plan["room"] = {{"ranks", room->ranks}, {"needed", room->needed}, {"bytes", room->bytes}, {"fits", room->fits()}};
  plan["flops"] = prediction.flops;
  plan["product_flops_of_a_rank"] = prediction.product_flops;
  plan["communication_bytes"] = bytes_sent(prediction);
  plan["compute_seconds"] = prediction.compute_seconds;
  plan["communication_seconds"] = prediction.communication_seconds;
  const StepTime time = step_time(compiled.program, prediction);
  plan["exposed_seconds"] = time.exposed;
  plan["predicted_seconds"] = time.total();
  if (prediction.pipeline) plan["pipeline"] = pipeline_json(sharded, *prediction.pipeline);
  return plan;
}

namespace {

std::string collectives_text(const ShardedGraph& sharded, const Prediction& p, const SourceMap& sources) {
  const Graph& graph = sharded.graph;
  const MeshShape& mesh = sharded.layout.mesh;
  std::string text;
  const auto first_of = [&](uint32_t call) {
    return std::ranges::find(p.collectives, call, &PlannedCollective::call)->tensor;
  };
  for (const PlannedCollective& c : p.collectives) {
    const std::string first = first_of(c.call);
    text += fmt::format("  {} {} over {} ({} ranks), {}{}, {} in {}{}{}\n      {}\n", name_of(c.kind), c.tensor,
                        axes_text(mesh, c.axes), c.group, meshrt::bytes_text(c.bytes),
                        c.sending != c.count ? fmt::format(" x {} of {}", c.sending, c.count)
                        : c.count > 1        ? fmt::format(" x {}", c.count)
                                             : "",
                        time_text(c.seconds * static_cast<double>(c.count)), c.phase,
                        c.span.known() ? ", " + place_text(graph, sources, c) : "",
                        first == c.tensor ? "" : ", sent together with " + first, c.reason);
  }
  return text;
}

}  // namespace

std::string plan_text(const Compiled& compiled, const SourceMap& sources) {
  const ShardedGraph& sharded = compiled.sharded();
  const Graph& graph = sharded.graph;
  const MeshShape& mesh = sharded.layout.mesh;
  const Prediction p = predict(compiled.program);
  const StepTime time = step_time(compiled.program, p);
  const auto share = [&](double seconds) { return time.total() > 0 ? 100 * seconds / time.total() : 0; };
  const Json memory = memory_json(compiled.program);
  std::string text = fmt::format("step {} = {} compute + {} exposed communication ({:.0f} %)", time_text(time.total()),
                                 time_text(time.compute), time_text(time.exposed), share(time.exposed));
  if (p.pipeline) text += fmt::format(" + {} bubble ({:.0f} %)", time_text(time.bubble), share(time.bubble));
  text += fmt::format(" · {} rank{} · {} a rank", mesh.ranks(), mesh.ranks() == 1 ? "" : "s",
                      meshrt::bytes_text(memory["peak"].get<int64_t>()));
  if (const PlannedCollective* largest = largest_collective(p))
    text += fmt::format(" · largest: {} {} over {}, {} ({})", name_of(largest->kind), largest->tensor,
                        axes_text(mesh, largest->axes), meshrt::bytes_text(volume(*largest)),
                        is_of_model(graph, largest->span) ? fmt::format("line {}", line_of(sources, largest->span))
                                                          : place_text(graph, sources, *largest));
  text += fmt::format("\n\nmesh {} {{", mesh.name.empty() ? "(one rank)" : mesh.name);
  for (const MeshAxis& axis : mesh.axes) text += fmt::format(" {}: {}", axis.name, axis.size);
  text += fmt::format(" }}   layout {}   machine {}{}\n\n{}values\n",
                      sharded.layout.name.empty() ? "(none)" : sharded.layout.name, sharded.machine.name,
                      compiled.precision == "f32" ? "" : "   precision " + compiled.precision,
                      found_text(compiled) + added_text(sharded));

  std::vector<PlannedTensor> tensors = planned_tensors(graph);
  size_t wide = 4;
  std::map<std::string, int> values;  // that have the name, one after the other
  for (const PlannedTensor& t : tensors) {
    wide = std::max(wide, t.name.size());
    ++values[t.name];
  }
  for (const PlannedTensor& t : tensors) {
    const ValueType& type = graph.type(t.value);
    const Placement& placement = sharded.placement(t.value);
    std::string local;
    for (size_t i = 0; i < type.dims.size(); ++i)
      local +=
          fmt::format("{}{}", i ? ", " : "", largest_extent(mesh, graph.dim(type.dims[i]).size, placement.dims[i]));
    const uint32_t line = line_of(sources, graph.node(graph.value(t.value).producer).span);
    text += fmt::format("  {:{}}  {:10}  {} -> [{}]{}\n", t.name, wide, t.kind, to_string(graph, mesh, type, placement),
                        local, values[t.name] > 1 && line > 0 ? fmt::format(", line {}", line) : "");
  }
  text += "\ncollectives, of a training step";
  if (p.collectives.empty()) text += "\n  none\n";
  else
    text += fmt::format(", each with what the rank sends that sends most of it: {} in all\n",
                        meshrt::bytes_text(bytes_sent(p)));
  text += collectives_text(sharded, p, sources);
  if (const Entry* outer = outer_step_of(compiled)) {
    const Prediction after = predict(outer->sharded);
    const int64_t bytes = bytes_sent(after);
    const std::string when = outer->after_steps == 1 ? "each step" : fmt::format("every {} steps", outer->after_steps);
    text += fmt::format("\nwhat replicas send after {}: {} in all, {} spread over the steps\n", when,
                        meshrt::bytes_text(bytes), meshrt::bytes_text(bytes / outer->after_steps));
    text += collectives_text(outer->sharded, after, sources);
  }
  if (p.pipeline) text += pipeline_text(sharded, *p.pipeline);
  text += "\nmemory of the largest rank\n";
  for (const auto& [kind, bytes] : memory.items())
    text += fmt::format("  {:12} {:>12}\n", kind, meshrt::bytes_text(bytes.get<int64_t>()));
  if (const std::string ranks = memory_of_ranks_text(compiled.program); !ranks.empty()) text += "  " + ranks + "\n";
  if (compiled.room) text += fmt::format("  {}\n", room_text(*compiled.room));
  text += budget_text(compiled);
  text += fmt::format("\nflops of a step, all ranks: {:.4g}\n", p.flops);
  return text;
}

}  // namespace mesh
