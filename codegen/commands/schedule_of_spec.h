// schedule_of_spec.h: `meshc schedule SPEC`: the pipeline of a layout over time, with the predicted times of its
// stages, and beside it what other schedules would take.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "codegen/layout/predict_pipeline.h"

namespace mesh {

class Session;    // commands/session.h
struct Compiled;  // compile.h

/// A pipeline as it is drawn.
struct SpecSchedule {
  const ShardedGraph& sharded;
  PlannedPipeline planned;

  /// UsageError where the layout has no pipeline.
  explicit SpecSchedule(const ShardedGraph&);
  /// Of what was planned already.
  SpecSchedule(const ShardedGraph& of, PlannedPipeline pipeline) : sharded(of), planned(std::move(pipeline)) {}
  /// "1f1b: 4 stages, 8 micro-batches in 3.2 ms, of which ranks are idle 12.1 %"
  std::string title() const;
  std::string text(bool colored) const;
  std::string json() const;
  /// In microseconds, to be drawn.
  Simulation in_microseconds() const;
};

/// A row for each named schedule that the turns suffice for, of the spec compiled under it: time, idle time, and the
/// memory of a rank as `meshc plan` says it. UsageError where the layout has no pipeline.
std::string compare_schedules(Session&, const Compiled& own, bool as_json);

}  // namespace mesh
