#include "codegen/commands/schedule_of_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/plan_pipeline.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/schedule_picture.h"
#include "codegen/commands/session.h"
#include "codegen/commands/table.h"
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

/// Of one compilation.
struct Compared {
  const NamedSchedule* named;
  PlannedPipeline planned;
  std::vector<int32_t> cut;
  size_t chunks;
  int64_t bytes;  // of the rank that uses most

  Compared(const NamedSchedule* schedule, const Compiled& of)
      : named(schedule),
        planned(planned_or_throw(of.sharded())),
        cut(of.sharded().layout.pipeline.cut),
        chunks(cut.size() / planned.ranks.size()),
        bytes(of.program.memory.peak()) {}
};

/// The layout's own as it says it, the others as their names do; without those that the spec cannot have, as there are
/// too few turns for their stages.
std::vector<Compared> compared(Session& session, const Compiled& own) {
  std::vector<Compared> all;
  for (const NamedSchedule& named : named_schedules()) {
    if (named.name == own.sharded().layout.pipeline.schedule) {
      all.emplace_back(&named, own);
      continue;
    }
    CompileRequest request = session.request;
    request.schedule = named.name;
    request.past_limits = request.on_trial = true;
    if (const auto other = session.quietly(request)) all.emplace_back(&named, *other);
  }
  return all;
}

}  // namespace

SpecSchedule::SpecSchedule(const ShardedGraph& of) : sharded(of), planned(planned_or_throw(of)) {}

std::string SpecSchedule::title() const {
  return fmt::format("{}: {} stages, {} in {}, of which ranks are idle {:.1f} %", sharded.layout.pipeline.schedule,
                     sharded.layout.pipeline.lists.stages, micro_batches_text(planned.micro_batches),
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

std::string compare_schedules(Session& session, const Compiled& own, bool as_json) {
  planned_or_throw(own.sharded());
  std::vector<std::vector<std::string>> rows{{"schedule", "cut", "time", "idle", "in flight", "memory", ""}};
  Json json = Json::array();
  for (const Compared& one : compared(session, own)) {
    const PlannedPipeline& planned = one.planned;
    const int32_t most = std::ranges::max(planned.run.peak_in_flight);
    const bool is_own = one.named->name == own.sharded().layout.pipeline.schedule;
    json.push_back({{"schedule", one.named->name},
                    {"chunks", one.chunks},
                    {"cut", one.cut},
                    {"seconds", planned.run.makespan},
                    {"idle_share", planned.idle_share()},
                    {"in_flight", most},
                    {"bytes", one.bytes}});
    rows.push_back({one.chunks == 1 ? one.named->name : fmt::format("{}, {} chunks", one.named->name, one.chunks),
                    cut_text(one.cut), time_text(planned.run.makespan),
                    fmt::format("{:.1f} %", 100 * planned.idle_share()), std::to_string(most),
                    meshrt::bytes_text(one.bytes), is_own ? "the layout's" : ""});
  }
  return as_json ? Json{{"schema", 1}, {"schedules", json}}.dump(2) + "\n" : in_columns(rows);
}

}  // namespace mesh
