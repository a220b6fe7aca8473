// reshard.h: the cheapest way from one placement of a value to another, as a list of collectives.
#pragma once
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "codegen/layout/cost.h"
#include "codegen/layout/reshard_moves.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

struct ReshardPath {
  double seconds = 0;
  std::vector<ReshardStep> steps;
  std::vector<Placement> placements;  // after each step; the last is the target
};

class ReshardPlanner {
 public:
  ReshardPlanner(const Graph& graph, const MeshShape& mesh, const Machine& machine)
      : graph_(graph), mesh_(mesh), machine_(machine) {}

  /// The way that takes the least time by the machine's description: A* over placements, every step a collective over a
  /// list of axes (reshard_moves.h). Nothing when the target has a partial that the source has not. Margins are fetched
  /// last, a step for each dim; what circulates does so last where it is read, and first where it is made.
  const std::optional<ReshardPath>& plan(const ValueType&, const Placement& from, const Placement& to);

  /// How much was done by all that place graphs with it, in steps that each take about a microsecond: a search ends by
  /// this and not by time, so that it finds the same everywhere.
  int64_t work() const { return work_; }
  void count(int64_t steps) const { work_ += steps; }

 private:
  std::optional<ReshardPath> with_margins(const ValueType&, const Placement& from, const Placement& to);
  std::optional<ReshardPath> with_circulation(const ValueType&, const Placement& from, const Placement& to);
  std::optional<ReshardPath> search(const ValueType&, const Placement& from, const Placement& to) const;
  void price(const ValueType&, const Placement& before, const Placement& after, ReshardStep&) const;
  void take_turns(ReshardStep&) const;
  void price_redistribution(const ValueType&, const Placement& before, const Placement& after, ReshardStep&) const;
  double message_seconds(const ReshardStep&) const;
  double least_seconds(const ValueType&, const Placement& at, const Placement& to) const;
  double least_seconds(const ValueType&, const Placement& before, const Move& redistribution) const;
  std::vector<AxisId> axes_for(const Placement& from, const Placement& to) const;
  static void join_slices(ReshardPath&);

  static constexpr size_t many_axes = 4;
  static constexpr double each_step_seconds = 1e-12;  // of two ways that take equally long the one of fewer steps

  const Graph& graph_;
  const MeshShape& mesh_;
  const Machine& machine_;
  using Key = std::tuple<Type, std::vector<DimId>, Placement, Placement>;
  struct Hash {
    using is_transparent = void;
    size_t operator()(const auto& key) const { return of(std::get<1>(key), std::get<2>(key), std::get<3>(key)); }
    static size_t of(const std::vector<DimId>&, const Placement& from, const Placement& to);
  };
  mutable int64_t work_ = 0;
  std::unordered_map<Key, std::optional<ReshardPath>, Hash, std::equal_to<>> known_;
};

}  // namespace mesh
