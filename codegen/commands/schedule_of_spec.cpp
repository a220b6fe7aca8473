#include "codegen/commands/schedule_of_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/plan_pipeline.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/schedule_picture.h"
#include "codegen/commands/table.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/named_schedules.h"
#include "meshrt/log.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;

PlannedPipeline planned_or_throw(const ShardedGraph& sharded) {
  std::optional<PlannedPipeline> planned = planned_pipeline(sharded);
  if (planned) return std::move(*planned);
  throw UsageError(fmt::format(
      "layout `{}` has no pipeline; `layer -> pipe {{ microbatches: 8 }}` makes one of `repeat layer` over an "
      "axis of several ranks",
      sharded.layout.name));
}

/// The turns of each of so many stages as the layout would cut them.
std::vector<int32_t> cut_into(const ShardedGraph& sharded, const PipelineCosts& costs,
                              const PipelineSchedule& schedule) {
  const Pipeline& pipeline = sharded.layout.pipeline;
  if (schedule.stages == pipeline.lists.stages) return pipeline.cut;
  if (pipeline.cut_by_time)
    if (const Partitioned found = cut_evenly_in_time(model_of(costs, schedule, {}, pipeline));
        const auto* cut = std::get_if<Partition>(&found))
      return cut->sizes;
  return even_cut(pipeline.turns(), schedule.stages, pipeline.first_alone, pipeline.last_alone);
}

struct Compared {
  const NamedSchedule* named;
  int32_t chunks;
  std::vector<int32_t> sizes;
  PlannedPipeline planned;
  int64_t bytes;  // of the rank that needs most: what it holds, and what it keeps of micro-batches under way
};

std::vector<Compared> compared(const ShardedGraph& sharded) {
  const PipelineCosts costs = planned_or_throw(sharded).costs;
  const PipelineSchedule& own = sharded.layout.pipeline.lists;
  std::vector<Compared> all;
  for (const NamedSchedule& named : named_schedules()) {
    const auto ranks = static_cast<int32_t>(own.ranks.size());
    const bool is_own = named.name == sharded.layout.pipeline.schedule;
    const int32_t chunks = is_own ? own.stages / ranks : named.chunks;
    const Pipeline& pipeline = sharded.layout.pipeline;
    const int32_t alone = (pipeline.first_alone ? 1 : 0) + (pipeline.last_alone ? 1 : 0);
    if (ranks * chunks - alone > pipeline.turns()) continue;
    PipelineSchedule passes = named.make({ranks, own.micro_batches, chunks});
    if (pipeline.split_backward) passes = with_split_backwards(std::move(passes));
    const PipelineSchedule schedule = with_recompute(std::move(passes), pipeline.remat);
    const std::vector<int32_t> sizes = cut_into(sharded, costs, schedule);
    Compared one{&named, chunks, sizes, planned_pipeline(costs, schedule, sizes, pipeline.waiting), 0};
    for (const PlannedRank& rank : one.planned.ranks) one.bytes = std::max(one.bytes, rank.work.held + rank.kept);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

SpecSchedule::SpecSchedule(const ShardedGraph& of) : sharded(of), planned(planned_or_throw(of)) {}

std::string SpecSchedule::title() const {
  return fmt::format("{}: {} stages, {} micro-batches in {}, of which ranks are idle {:.1f} %",
                     sharded.layout.pipeline.schedule, sharded.layout.pipeline.lists.stages, planned.micro_batches,
                     time_text(planned.run.makespan), 100 * planned.idle_share());
}

std::string SpecSchedule::text(bool colored) const {
  constexpr size_t columns = 110;
  return fmt::format("{}\n\n{}{}", title(), draw_timeline(planned.run, columns, colored),
                     pipeline_text(sharded, planned));
}

std::string SpecSchedule::json() const {
  Json json = pipeline_json(sharded, planned);
  json["actions"] = Json::array();
  for (const auto& actions : planned.run.actions) {
    json["actions"].push_back(Json::array());
    for (const Simulation::Timed& one : actions)
      json["actions"].back().push_back({{"action", to_text(one.action)}, {"begin", one.begin}, {"end", one.end}});
  }
  return Json{{"schema", 1}, {"pipeline", json}}.dump(2) + "\n";
}

Simulation SpecSchedule::in_microseconds() const {
  Simulation run = planned.run;
  run.makespan *= 1e6;
  for (auto& actions : run.actions)
    for (Simulation::Timed& one : actions) one.begin *= 1e6, one.end *= 1e6;
  return run;
}

std::string compare_schedules(const ShardedGraph& sharded, bool as_json) {
  std::vector<std::vector<std::string>> rows{{"schedule", "cut", "time", "idle", "in flight", "memory", ""}};
  Json json = Json::array();
  for (const Compared& one : compared(sharded)) {
    const PlannedPipeline& planned = one.planned;
    const int32_t most = std::ranges::max(planned.run.peak_in_flight);
    const bool own = one.named->name == sharded.layout.pipeline.schedule;
    json.push_back({{"schedule", one.named->name},
                    {"chunks", one.chunks},
                    {"cut", one.sizes},
                    {"seconds", planned.run.makespan},
                    {"idle_share", planned.idle_share()},
                    {"in_flight", most},
                    {"bytes", one.bytes}});
    rows.push_back({one.chunks == 1 ? one.named->name : fmt::format("{}, {} chunks", one.named->name, one.chunks),
                    cut_text(one.sizes), time_text(planned.run.makespan),
                    fmt::format("{:.1f} %", 100 * planned.idle_share()), std::to_string(most),
                    meshrt::bytes_text(one.bytes), own ? "the layout's" : ""});
  }
  return as_json ? Json{{"schema", 1}, {"schedules", json}}.dump(2) + "\n" : in_columns(rows);
}

}  // namespace mesh
