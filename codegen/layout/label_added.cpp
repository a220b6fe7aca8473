#include "codegen/layout/label_added.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

struct Label {
  Part part;
  RegionId region;
};

/// Whether what has the label `a` may be read by what has `b`, but not the reverse: F goes through the regions in their
/// order, I from the last to the first.
bool is_before(const Label& a, const Label& b) {
  if (a.part != b.part) return a.part < b.part;
  return a.part == Part::input_gradient ? a.region > b.region : a.region < b.region;
}

class Labels {
 public:
  explicit Labels(ShardedGraph& sharded) : graph_(sharded.graph), first_added_(sharded.first_added) {
    walk(graph_.root());
    for_each_caller(graph_, [&](ValueId value) { leaving_.insert(value); });
    for (const Movement& one : sharded.movements)
      if (one.user && one.user == graph_.value(one.from).producer)  // a rule says where its result lies
        for (ValueId at = one.to; at != one.from; at = graph_.node(graph_.value(at).producer).inputs[0])
          leaving_.insert(at);
  }

  void run() {
    for (size_t i = order_.size(); i-- > 0;)  // readers first
      if (is_added(order_[i])) label(order_[i]);
    for (const NodeId id : order_)
      if (is_added(id) && is_made_of_free(id)) graph_.node(id).region = {};
  }

 private:
  bool is_added(NodeId id) const { return id.index >= first_added_; }

  void walk(BodyId body) {
    for (const NodeId id : graph_.body(body).nodes) {
      order_.push_back(id);
      const Node& node = graph_.node(id);
      for (const ValueId input : node.inputs) readers_[input].push_back(id);
      const auto* loop = std::get_if<LoopOp>(&node.op);
      if (loop == nullptr) continue;
      walk(loop->body);
      for (const LoopOp::Carry& carry : loop->carries) leaving_.insert(carry.leaving);
      for (const LoopOp::Collect& collect : loop->collects) leaving_.insert(collect.turn);
    }
  }

  void label(NodeId id) {
    Node& node = graph_.node(id);
    std::optional<Label> first;
    const auto consider = [&](const Label& other) {
      if (!first || is_before(other, *first)) first = other;
    };
    for (const ValueId result : node.results) read_by(result, node.body, consider);
    const ValueId made_of = source_of(node.results[0]);
    const std::optional<Label> source = label_of_maker(made_of);
    const bool is_read = first.has_value();
    if (!is_read || leaves(node))
      consider(source && graph_.value(made_of).body == node.body ? *source : first_of(node.body));
    if (source && first->part < source->part) first = source;  // a loop of I takes what W made, for its turns' W
    // Where a rule moves what nobody reads, its turns are made where the loop before made them.
    if (const auto made = is_read || source ? std::nullopt : part_of_turns(made_of); made && first->part < *made)
      first->part = *made;
    node.part = first->part;
    node.region = first->part == Part::update ? RegionId{} : first->region;
  }

  bool leaves(const Node& node) const {
    return std::ranges::any_of(node.results, [&](ValueId result) { return leaving_.contains(result); });
  }

  /// The labels of those that read a value, as they stand in `body`.
  template <class Consider>
  void read_by(ValueId value, BodyId body, Consider&& consider) const {
    const auto readers = readers_.find(value);
    if (readers == readers_.end()) return;
    for (const NodeId id : readers->second) {
      const Node& reader = graph_.node(id);
      if (const auto* loop = std::get_if<LoopOp>(&reader.op))  // by their turns; by all of it what it enters with
        for (const LoopOp::Slice& slice : loop->slices)
          if (slice.stacked == value) read_by(slice.turn, body, consider);
      Label label{reader.part, {}};  // of the outermost region around the reader there: a loop of it is made as a whole
      for (NodeId stands = id;; stands = graph_.body(graph_.node(stands).body).owner) {
        const Node& around = graph_.node(stands);
        // What a loop of I computes again, R of its turns, is made of what is computed again before the loop.
        const Part part = reader.part == Part::recompute ? Part::recompute : around.part;
        if (around.region) label = {part, around.region};
        if (around.body == body) break;
      }
      consider(label);
    }
  }

  /// The value that is not added of which a value is made.
  ValueId source_of(ValueId value) const {
    NodeId maker = graph_.value(value).producer;
    while (is_added(maker) && !graph_.node(maker).inputs.empty()) {
      value = graph_.node(maker).inputs[0];
      maker = graph_.value(value).producer;
    }
    return value;
  }

  /// Of the node that makes it; nothing where that is a loop which gives it to its turns.
  std::optional<Label> label_of_maker(ValueId source) const {
    const Node& node = graph_.node(graph_.value(source).producer);
    if (graph_.value(source).body != node.body) return {};
    return Label{node.part, node.region};
  }

  /// The part that has made what a loop gives to its turns; nothing of another argument.
  std::optional<Part> part_of_turns(ValueId turn) const {
    const auto* loop = std::get_if<LoopOp>(&graph_.node(graph_.value(turn).producer).op);
    if (loop == nullptr) return {};
    const auto slice = std::ranges::find(loop->slices, turn, &LoopOp::Slice::turn);
    if (slice == loop->slices.end()) return {};
    return graph_.node(graph_.value(source_of(slice->stacked)).producer).part;
  }

  /// Of what a turn makes first.
  Label first_of(BodyId body) const {
    for (const NodeId id : graph_.body(body).nodes)
      if (!is_added(id) && graph_.node(id).region) return {graph_.node(id).part, graph_.node(id).region};
    return {graph_.node(graph_.body(body).owner).part, {}};
  }

  bool is_made_of_free(NodeId id) {
    const Node& node = graph_.node(id);
    const auto free = [&](ValueId input) {
      const NodeId maker = graph_.value(input).producer;
      const auto* loop = std::get_if<LoopOp>(&graph_.node(maker).op);
      return free_.contains(maker) || is_given(graph_, graph_.node(maker)) || (loop && loop->index == input);
    };
    const bool result = is_given(graph_, node) || std::ranges::all_of(node.inputs, free);
    if (result) free_.insert(id);
    return result;
  }

  Graph& graph_;
  const size_t first_added_;
  std::vector<NodeId> order_;  // of execution, a loop before what stands in its body
  std::map<ValueId, std::vector<NodeId>> readers_;
  std::set<ValueId> leaving_;  // their bodies, or the step, or where they are made
  std::set<NodeId> free_;      // added, of positions and plain numbers alone
};

}  // namespace

void label_added(ShardedGraph& sharded) { Labels(sharded).run(); }

}  // namespace mesh
