// sharded_graph.h: a graph with a placement for every value and every movement of data written as an explicit reshard
// step.
#pragma once
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/placement.h"

namespace mesh {

enum class CollectiveKind : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  permute,
  redistribute,
  halo,
  ring,
  broadcast,
  reduce,
  slice,
  term
};
const char* name_of(CollectiveKind);  // "all_reduce"
/// Whether anything goes from rank to rank.
constexpr bool sends(CollectiveKind kind) { return kind != CollectiveKind::slice && kind != CollectiveKind::term; }

/// One collective over the ranks that differ only in `axes` (one group, ordered major first).
/// all_reduce: completes a partial. reduce_scatter: completes it and leaves `to_dim` split. all_gather: makes the split
/// of `from_dim` whole. all_to_all: moves the split from `from_dim` to `to_dim`. permute: parts as they are change
/// owners, each member sends what it holds to one other. redistribute: dims come to be cut and dealt otherwise, in any
/// way (redistribution.h); without axes a rank's own elements change their order. halo: fetches the margins of
/// `from_dim` over all of its axes, which may be none. ring: the parts of `from_dim` go round while the op that reads,
/// or made, the value works on them, to those that meet them (DimPlacement::meets). slice: `to_dim` becomes split,
/// nothing is sent; without a dim it is held no longer but `at` some. broadcast: what is held `at` one coordinate of an
/// axis, or some, comes to all. reduce: completes a partial `at` one. term: what one coordinate of an axis holds
/// becomes a term of a sum over it, others have zeros; nothing is sent. An all_reduce of a sum that has terms `at` some
/// coordinates alone is made by these. The axes of a dim that are gathered are always the last (minor) ones of its
/// list; axes that a step adds are appended.
struct ReshardStep {
  CollectiveKind kind;
  std::vector<AxisId> axes;
  int from_dim = -1, to_dim = -1;  // positions in the value's dims
  std::vector<AxisId> to_axes;     // of a permute: the same axes in the order in which they number the parts afterwards
  Reduce reduce = Reduce::sum;
  int64_t bytes = 0;   // what the rank that sends most sends in one call
  double seconds = 0;  // predicted, by the machine description, of one call
  std::string reason;  // why it is there, in one sentence
  Span rule;           // the layout rule that caused it, if one did
  Where at = {};       // of a broadcast, a reduce, a slice without a dim, an all_reduce that not all coordinates make
  /// Where that changes with the turns of a loop the rank that sends most does so in `busy` of `turns`.
  int64_t busy = 1, turns = 1;
  std::vector<int64_t> meets = {};  // of a ring
  int64_t calls = 1;                // of one execution
};

/// The coordinates of an axis that alone make a movement; null: all do.
inline const Where* makers(CollectiveKind kind, const Where& at) {
  return kind == CollectiveKind::all_reduce && !at.coordinates.empty() ? &at : nullptr;
}

/// How many ranks make a step together.
inline int64_t group_size(const MeshShape& mesh, const ReshardStep& step) {
  const int64_t all = mesh.size(step.axes);
  const Where* some = makers(step.kind, step.at);
  return some ? all / mesh.axes[some->axis].size * static_cast<int64_t>(some->coordinates.size()) : all;
}

/// What the rank that sends most sends in so many executions.
inline int64_t sent_in(const ReshardStep& step, int64_t executions) {
  return step.bytes * (executions / step.turns * step.busy);
}

/// A chain of reshard steps that brings a value from where it is made to where it is needed.
struct Movement {
  ValueId from, to;
  NodeId user;  // for which it is brought; the producer itself where a rule says where its result lies; unset: no op
};

struct ShardedGraph {
  // Made, copied and destroyed in one file: to generate that for so deep a struct takes each file a second.
  ShardedGraph();
  ShardedGraph(const ShardedGraph&);
  ShardedGraph(ShardedGraph&&) noexcept;
  ShardedGraph& operator=(const ShardedGraph&);
  ShardedGraph& operator=(ShardedGraph&&) noexcept;
  ~ShardedGraph();

  Graph graph;  // with ReshardOp nodes
  Layout layout;
  Machine machine;
  std::vector<Placement> placements;    // by value
  std::vector<std::string> provenance;  // by value: which rules or values brought its axes
  std::vector<ReshardStep> steps;       // by ReshardOp::step
  std::vector<Movement> movements;
  DividedLoops divided = {};
  size_t first_added = 0;  // nodes from here on are none of the graph that was placed

  const Placement& placement(ValueId id) const { return placements[id.index]; }
};

}  // namespace mesh
