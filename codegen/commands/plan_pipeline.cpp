#include "codegen/commands/plan_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/commands/plan_report.h"
#include "codegen/commands/table.h"
#include "codegen/layout/cut.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

using Json = nlohmann::ordered_json;
using meshrt::bytes_text;

double backward(const StageCosts& seconds) { return seconds.input_gradient + seconds.weight_gradient; }

std::string crossing_text(const PlannedPipeline& pipeline, const StageMessage& one, int32_t slots) {
  const bool by_all = one.among == StageRange{0, static_cast<int32_t>(pipeline.rank_of_stage.size()) - 1};
  const std::string among = by_all ? "" : fmt::format(" of {} to {}", one.among.first, one.among.last);
  return fmt::format("  {} to the {}{}: {} x {}, {}; {} slots, {}\n", one.name,
                     one.down ? "stage before" : "next stage", among, bytes_text(one.bytes), pipeline.micro_batches,
                     time_text(one.seconds * static_cast<double>(pipeline.micro_batches)), slots,
                     bytes_text(slots * one.bytes));
}

}  // namespace

Json pipeline_json(const ShardedGraph& sharded, const PlannedPipeline& pipeline) {
  const Pipeline& layout = sharded.layout.pipeline;
  Json stages = Json::array(), messages = Json::array();
  for (const PlannedRank& stage : pipeline.ranks)
    stages.push_back({{"turns", stage.turns},
                      {"forward_seconds", stage.work.seconds.forward},
                      {"recompute_seconds", stage.work.seconds.recompute},
                      {"backward_seconds", backward(stage.work.seconds)},
                      {"idle_seconds", stage.idle_seconds},
                      {"in_flight", stage.in_flight},
                      {"held_bytes", stage.work.held},
                      {"kept_bytes", stage.kept}});
  for (const StageMessage& one : pipeline.costs.crossings)
    messages.push_back({{"tensor", one.name},
                        {"to", one.down ? "stage before" : "next stage"},
                        {"bytes", one.bytes},
                        {"count", pipeline.micro_batches},
                        {"slots", pipeline.slots},
                        {"seconds", one.seconds}});
  std::vector<std::string> dims;
  for (const PipelineLoop& loop : layout.loops) dims.push_back(sharded.graph.dim(loop.dim).name);
  return {{"dim", fmt::format("{}", fmt::join(dims, ", "))},
          {"axis", sharded.layout.mesh.axes[layout.axis].name},
          {"schedule", layout.schedule},
          {"microbatches", pipeline.micro_batches},
          {"seconds", pipeline.run.makespan},
          {"bubble_seconds", pipeline.bubble_seconds()},
          {"idle_share", pipeline.idle_share()},
          {"imbalance", pipeline.imbalance()},
          {"stages", stages},
          {"messages", messages}};
}

std::vector<std::vector<std::string>> stage_rows(const ShardedGraph& sharded, const PlannedPipeline& pipeline) {
  const Pipeline& layout = sharded.layout.pipeline;
  std::vector<std::vector<std::string>> rows{
      {layout.has_chunks() ? "rank" : "stage", "turns", "forward", "backward", "idle", "in flight", "holds", "keeps"}};
  for (size_t i = 0; i < pipeline.ranks.size(); ++i) {
    const PlannedRank& stage = pipeline.ranks[i];
    rows.push_back({std::to_string(i), std::to_string(stage.turns), time_text(stage.work.seconds.forward),
                    time_text(backward(stage.work.seconds)),
                    fmt::format("{:.0f} %", 100 * stage.idle_seconds / pipeline.run.makespan),
                    std::to_string(stage.in_flight), bytes_text(stage.work.held), bytes_text(stage.kept)});
    if (layout.recomputes()) rows.back().insert(rows.back().begin() + 3, time_text(stage.work.seconds.recompute));
  }
  if (layout.recomputes()) rows.front().insert(rows.front().begin() + 3, "again");
  return rows;
}

std::string pipeline_text(const ShardedGraph& sharded, const PlannedPipeline& pipeline) {
  const Pipeline& layout = sharded.layout.pipeline;
  const std::string ranks = layout.has_chunks() ? fmt::format(" on {} ranks", pipeline.ranks.size()) : "";
  const std::string one = layout.has_chunks() ? "rank" : "stage";
  std::string text = fmt::format("\npipeline of {} over {}: {} stages{}, schedule {}, {} in {}\n",
                                 names_of_loops(sharded.graph, layout), sharded.layout.mesh.axes[layout.axis].name,
                                 layout.lists.stages, ranks, layout.schedule,
                                 micro_batches_text(pipeline.micro_batches), time_text(pipeline.run.makespan));
  std::vector<std::vector<std::string>> rows = stage_rows(sharded, pipeline);
  for (std::vector<std::string>& row : rows) row.front().insert(0, "  ");
  text += in_columns(rows);
  text += fmt::format("  the slowest {0} takes {1:.2f} times the mean; {0}s are idle {2:.0f} % of their time\n", one,
                      pipeline.imbalance(), 100 * pipeline.idle_share());
  for (const StageMessage& message : pipeline.costs.crossings) text += crossing_text(pipeline, message, pipeline.slots);
  return text;
}

}  // namespace mesh
