#include "codegen/layout/stage_carries.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/cut.h"

namespace mesh {
namespace {

/// Places along the model: gap k, which stands in front of the pipeline's loop k, is 2 k, the turns of that are
/// 2 k + 1, and what stands behind the last loop is the last gap.
using Position = size_t;
Position of_gap(size_t gap) { return 2 * gap; }
Position of_turns(size_t loop) { return 2 * loop + 1; }

class StageCarries {
 public:
  StageCarries(Graph& graph, const Pipeline& pipeline)
      : graph_(graph), turns_(all_layers(graph, pipeline)), loops_(pipeline.loops.size()) {
    for (const NodeId id : nodes())
      if (const auto* loop = std::get_if<LoopOp>(&graph.node(id).op))
        if (const auto number = pipeline.loop_over(loop->dim); number && !loops_[*number]) {
          loops_[*number] = id;
          number_[id] = *number;
        }
  }

  void run() {
    for (const NodeId id : nodes()) look(id);
    place_open();
    for (const NodeId id : std::vector<NodeId>(nodes())) {
      if (number_.contains(id)) {
        const LoopOp loop = std::get<LoopOp>(graph_.node(id).op);
        for (const LoopOp::Carry& carry : loop.carries)
          if (const auto gap = gap_of(carry.result)) hand_on(carry.result, *gap);
      } else if (const auto gap = gaps_.find(id); gap != gaps_.end()) {
        for (const ValueId result : std::vector<ValueId>(graph_.node(id).results)) hand_on(result, gap->second);
      }
    }
    order();
  }

 private:
  const std::vector<NodeId>& nodes() const { return graph_.body(graph_.root()).nodes; }

  /// What reads a loop's result now comes behind the loop; all else stays in its order.
  void order() {
    std::vector<NodeId> ordered;
    std::set<NodeId> done;
    const auto add = [&](const auto& self, NodeId id) -> void {
      if (!done.insert(id).second) return;
      for_each_source(graph_, graph_.node(id), [&](ValueId value) {
        if (graph_.value(value).body == graph_.root()) self(self, graph_.value(value).producer);
      });
      ordered.push_back(id);
    };
    for (const NodeId id : nodes()) add(add, id);
    graph_.body(graph_.root()).nodes = std::move(ordered);
  }

  /// What a value of the root is made of.
  struct Made {
    bool of_samples = false, of_parameters = false;  // directly or not; of those that are trained
    bool of_all_stages = false;  // each has its part: sums and stacks of the pipeline's loops, inputs with turns
  };

  /// In front of which loop, or behind which, the value is made; nothing for what no stage alone makes.
  std::optional<size_t> gap_of(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (const auto number = number_.find(producer); number != number_.end()) {
      const LoopOp& loop = std::get<LoopOp>(graph_.node(producer).op);
      for (const LoopOp::Carry& carry : loop.carries)
        if (carry.result == value && !adds_up_apart(graph_, loop, carry)) return number->second + 1;
      return {};
    }
    const auto found = gaps_.find(producer);
    return found == gaps_.end() ? std::nullopt : std::optional(found->second);
  }

  void look(NodeId id) {
    const Node& node = graph_.node(id);
    Made& made = made_[id];
    if (const auto* read = std::get_if<ReadOp>(&node.op)) {
      const Stored& stored = graph_.stored[read->stored.index];
      made.of_samples = stored.kind == StoredKind::input;
      made.of_all_stages = made.of_samples && std::ranges::any_of(stored.type.dims, [&](DimId dim) {
                             return std::ranges::count(turns_, dim, &PipelineLoop::dim) > 0;
                           });
      made.of_parameters = stored.kind == StoredKind::parameter && !stored.frozen;
      return;
    }
    if (const auto number = number_.find(id); number != number_.end()) passed_ = number->second + 1;
    std::optional<size_t> gap;
    for_each_source(graph_, node, [&](ValueId value) {
      const NodeId producer = graph_.value(value).producer;
      const Made& from = made_[producer];
      made.of_samples |= from.of_samples;
      made.of_parameters |= from.of_parameters;
      const std::optional<size_t> at = gap_of(value);
      made.of_all_stages |= from.of_all_stages || (number_.contains(producer) && !at);
      if (at) gap = std::max({gap.value_or(0), *at, passed_});
    });
    if (number_.contains(id)) made.of_all_stages = false;  // as its values are each for itself
    else if (gap && !made.of_all_stages) gaps_[id] = *gap;
  }

  /// Whether it has a gradient for each sample, and no stage has been found that makes it.
  bool is_open(NodeId id) const {
    const Made& made = made_.at(id);
    return made.of_samples && made.of_parameters && !made.of_all_stages && !number_.contains(id) && !gaps_.contains(id);
  }

  /// What depends on no stage is made where it is needed first; at the first one what only becomes a state or a metric.
  void place_open() {
    std::map<NodeId, Position> first;
    for (auto at = nodes().rbegin(); at != nodes().rend(); ++at) {
      if (is_open(*at)) {
        const auto needed = first.find(*at);
        gaps_[*at] = needed == first.end() ? 0 : needed->second / 2;
      }
      for_each_need(*at, [&](ValueId value, Position position) {
        Position& known = first.try_emplace(graph_.value(value).producer, position).first->second;
        known = std::min(known, position);
      });
    }
  }

  /// The values of the root that a node needs, and where.
  template <class Visit>
  void for_each_need(NodeId id, Visit visit) const {
    const Node& node = graph_.node(id);
    if (const auto number = number_.find(id); number != number_.end()) {
      for (const LoopOp::Carry& carry : std::get<LoopOp>(node.op).carries) visit(carry.initial, of_gap(number->second));
      for_each_inner_read(std::get<LoopOp>(node.op), [&](ValueId value) {
        if (graph_.value(value).body == graph_.root()) visit(value, of_turns(number->second));
      });
    } else if (const auto gap = gaps_.find(id); gap != gaps_.end()) {
      for_each_source(graph_, node, [&](ValueId value) { visit(value, of_gap(gap->second)); });
    }
  }

  template <class Visit>
  void for_each_inner_read(const LoopOp& loop, Visit visit) const {
    for (const NodeId inner : graph_.body(loop.body).nodes) {
      for_each_read(std::as_const(graph_).node(inner), [&](ValueId value) {
        if (value) visit(value);
      });
      if (const auto* nested = std::get_if<LoopOp>(&graph_.node(inner).op)) for_each_inner_read(*nested, visit);
    }
  }

  /// A carry of each loop between the gap in which the value is made and its last reader.
  void hand_on(ValueId value, size_t gap) {
    Position last = of_gap(gap);
    for (const NodeId id : nodes())
      for_each_need(id, [&](ValueId needed, Position position) {
        if (needed == value) last = std::max(last, position);
      });
    ValueId now = value;
    for (size_t loop = gap; loop < loops_.size() && of_turns(loop) <= last; ++loop) {
      if (!loops_[loop]) continue;
      now = carry(value, now, loops_[loop]);
      for (const NodeId id : std::vector<NodeId>(nodes()))
        if (const auto number = number_.find(id); number != number_.end() && number->second == loop + 1)
          begin_with(id, value, now);
        else if (const auto found = gaps_.find(id); found != gaps_.end() && found->second == loop + 1)
          read_instead(id, value, now);
    }
  }

  /// The result of a new carry of the loop that begins with `now` and stays so; its turns read that for `value`.
  ValueId carry(ValueId value, ValueId now, NodeId id) {
    LoopOp loop = std::get<LoopOp>(graph_.node(id).op);
    GraphBuilder build(graph_);
    const ValueType type = graph_.type(value);
    const std::string name = graph_.value(value).name.empty() ? graph_.value(value).label : graph_.value(value).name;
    const ValueId entering = build.argument(type, loop.body, id), result = build.argument(type, graph_.root(), id);
    graph_.value(entering).label = graph_.value(result).label = name;
    for (const NodeId inner : std::vector<NodeId>(graph_.body(loop.body).nodes)) read_instead(inner, value, entering);
    loop.carries.push_back({now, entering, entering, result});
    graph_.node(id).op = loop;
    connect_loop(graph_.node(id));
    return result;
  }

  void begin_with(NodeId id, ValueId value, ValueId now) {
    for (LoopOp::Carry& carry : std::get<LoopOp>(graph_.node(id).op).carries)
      if (carry.initial == value) carry.initial = now;
    connect_loop(graph_.node(id));
  }

  /// The node, and what is inside it, reads another value.
  void read_instead(NodeId id, ValueId value, ValueId other) {
    for_each_read(graph_.node(id), [&](ValueId& read) {
      if (read == value) read = other;
    });
    const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op);
    if (!loop) return;
    const std::vector<NodeId> inner = graph_.body(loop->body).nodes;
    connect_loop(graph_.node(id));
    for (const NodeId one : inner) read_instead(one, value, other);
  }

  Graph& graph_;
  std::vector<PipelineLoop> turns_;
  std::vector<NodeId> loops_;        // by number; unset where the graph has none
  std::map<NodeId, size_t> number_;  // the reverse
  std::map<NodeId, Made> made_;
  size_t passed_ = 0;              // loops that stand in front of the node that is looked at
  std::map<NodeId, size_t> gaps_;  // of the nodes that one stage alone makes
};

}  // namespace

void carry_through_loops(Graph& graph, const Layout& layout) {
  if (!layout.pipeline) return;
  merge_equal(graph);  // what is one value later on has one place
  StageCarries(graph, layout.pipeline).run();
}

}  // namespace mesh
