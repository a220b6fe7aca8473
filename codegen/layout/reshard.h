// reshard.h: the cheapest way from one placement of a value to another, as a list of collectives.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/layout/cost.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

struct ReshardPath {
  double seconds = 0;
  std::vector<ReshardStep> steps;     // neighbouring steps of a kind over one dim are one step over several axes
  std::vector<Placement> placements;  // after each step; the last is the target
};

class ReshardPlanner {
 public:
  ReshardPlanner(const Graph& graph, const MeshShape& mesh, const Machine& machine)
      : graph_(graph), mesh_(mesh), machine_(machine) {}

  /// Dijkstra over placements; moves only bring axes where the target wants them or take away what it does not. Nothing
  /// when the target has a partial that the source has not. Margins are fetched last, a step for each dim.
  const std::optional<ReshardPath>& plan(const ValueType&, const Placement& from, const Placement& to);

 private:
  std::optional<ReshardPath> with_margins(const ValueType&, const Placement& from, const Placement& to);
  std::optional<ReshardPath> search(const ValueType&, const Placement& from, const Placement& to) const;

  const Graph& graph_;
  const MeshShape& mesh_;
  const Machine& machine_;
  using Key = std::pair<std::vector<DimId>, std::pair<Placement, Placement>>;
  std::map<std::pair<Type, Key>, std::optional<ReshardPath>> known_;
};

}  // namespace mesh
