#include "codegen/layout/complete_in_turns.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/layout/cost.h"
#include "codegen/layout/work.h"

namespace mesh {

namespace {

/// Sums that one loop leaves and the same ranks complete, or scatter.
struct LoopSums {
  NodeId loop;
  CollectiveKind kind;
  std::vector<AxisId> axes;
  std::vector<std::pair<ValueId, Placement>> stacks;  // with the placement that completes them
  int64_t bytes = 0;                                  // sent by a rank for all turns
};

class TurnSums {
 public:
  explicit TurnSums(const ShardedGraph& placed) : placed_(placed), graph_(placed.graph), work_(placed) {}

  std::map<ValueId, Placement> run() {
    for (const Movement& moved : placed_.movements) add(moved);
    std::map<ValueId, Placement> lies;
    for (const LoopSums& sums : found_)
      if (pays(sums)) lies.insert(sums.stacks.begin(), sums.stacks.end());
    return lies;
  }

 private:
  /// An all-reduce or reduce-scatter over hosts, alone, of what a loop stacked in the body in which it stands.
  void add(const Movement& moved) {
    const NodeId loop = graph_.value(moved.from).producer, completes = graph_.value(moved.to).producer;
    const auto* turns = std::get_if<LoopOp>(&graph_.node(loop).op);
    const auto* reshard = std::get_if<ReshardOp>(&graph_.node(completes).op);
    if (!turns || !reshard || graph_.node(completes).inputs[0] != moved.from) return;
    const ReshardStep& step = placed_.steps[reshard->step];
    if (step.kind != CollectiveKind::all_reduce && step.kind != CollectiveKind::reduce_scatter) return;
    if (within_node(placed_.machine, placed_.layout.mesh, step.axes)) return;
    const bool stacked = std::ranges::count(turns->collects, moved.from, &LoopOp::Collect::stacked) > 0;
    const Placement& lies = placed_.placement(moved.to);
    if (!stacked || !lies.dims[0].axes.empty() || !lies.at.empty() || until(graph_, *turns)) return;
    auto sums = std::ranges::find_if(found_, [&](const LoopSums& one) {
      return one.loop == loop && one.kind == step.kind && one.axes == step.axes;
    });
    if (sums == found_.end()) sums = found_.insert(found_.end(), {loop, step.kind, step.axes, {}});
    sums->stacks.emplace_back(moved.from, lies);
    sums->bytes += step.bytes;
  }

  /// Whether less is waited for: of the sums of a turn for what the next turn's work does not hide, of the last one's
  /// for all.
  bool pays(const LoopSums& sums) const {
    const auto& loop = std::get<LoopOp>(graph_.node(sums.loop).op);
    const int64_t turns = graph_.dim(loop.dim).size;
    const auto seconds = [&](int64_t bytes) {
      return collective_seconds(placed_.machine, placed_.layout.mesh, sums.axes, sums.kind, bytes);
    };
    const double turn = seconds(sums.bytes / turns);
    const double waited = turn + static_cast<double>(turns - 1) * std::max(0.0, turn - work_of(loop.body));
    return waited < seconds(sums.bytes);
  }

  /// Seconds of one turn.
  double work_of(BodyId body) const {
    double seconds = 0;
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      if (const auto* inner = std::get_if<LoopOp>(&node.op))
        seconds += static_cast<double>(turns_made(placed_, *inner)) * work_of(inner->body);
      else seconds += work_.seconds(node);
    }
    return seconds;
  }

  const ShardedGraph& placed_;
  const Graph& graph_;
  const Work work_;
  std::vector<LoopSums> found_;
};

}  // namespace

std::map<ValueId, Placement> completed_in_turns(const ShardedGraph& placed) { return TurnSums(placed).run(); }

}  // namespace mesh
