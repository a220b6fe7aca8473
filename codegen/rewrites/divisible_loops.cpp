#include "codegen/rewrites/divisible_loops.h"

#include <algorithm>
#include <map>
#include <vector>

#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/free_turns.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

class DivisibleLoop {
 public:
  DivisibleLoop(Graph& graph, NodeId id) : graph_(graph), id_(id), loop_(std::get<LoopOp>(graph.node(id).op)) {
    count(loop_.body);
    for_each_read(graph.node(id), [&](ValueId value) { ++uses_[value]; });
  }

  void run() {
    for (const LoopOp::Carry& carry : loop_.carries) entering_first(carry);
    if (turns_are_free(graph_, loop_)) take_slices();
    else close();
  }

  void take_slices() {
    if (loop_.index) take_slices(loop_.body);
    close();
  }

 private:
  void close() {
    graph_.node(id_).op = loop_;
    connect_loop(graph_.node(id_));
  }

  void count(BodyId body) {
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      for_each_read(node, [&](ValueId value) { ++uses_[value]; });
      if (const auto* inner = std::get_if<LoopOp>(&node.op)) count(inner->body);
      inside_.insert(inside_.end(), node.results.begin(), node.results.end());
    }
  }

  /// What was appended to a body since it had `before` nodes comes to stand in front of `node`.
  void move_before(NodeId node, size_t before) {
    std::vector<NodeId>& nodes = graph_.body(graph_.node(node).body).nodes;
    std::rotate(std::ranges::find(nodes, node), nodes.begin() + static_cast<std::ptrdiff_t>(before), nodes.end());
  }

  // ---- sums

  /// The terms of a sum, through additions of this body that nobody else needs.
  void terms_of(ValueId sum, std::vector<ValueId>& terms, std::vector<NodeId>& additions) const {
    const NodeId id = graph_.value(sum).producer;
    const Node& node = graph_.node(id);
    const auto used = uses_.find(sum);
    const bool inner = used != uses_.end() && used->second == 1 && graph_.value(sum).name.empty();
    if (!is_addition(node.op) || node.body != loop_.body || (!additions.empty() && !inner)) return terms.push_back(sum);
    additions.push_back(id);
    for (const ValueId term : node.inputs) terms_of(term, terms, additions);
  }

  /// Terms of a sum that has the dims of both may each lack some.
  ValueId added(GraphBuilder& build, ValueId one, ValueId other) const {
    const auto lacking = [&](ValueId in, ValueId of) {
      std::vector<DimId> dims = graph_.type(of).dims;
      std::erase_if(dims, [&](DimId dim) { return has(graph_.type(in).dims, dim); });
      return dims;
    };
    const std::vector<DimId> more = lacking(one, other);
    return build.add(lacking(other, one).empty() ? one : build.broadcast(one, more), other);
  }

  void entering_first(const LoopOp::Carry& carry) {
    std::vector<ValueId> terms;
    std::vector<NodeId> additions;
    terms_of(carry.leaving, terms, additions);
    if (additions.empty() || std::ranges::count(terms, carry.entering) != 1) return;
    Node& last = graph_.node(additions.front());
    if (additions.size() == 1 || last.inputs[0] == carry.entering) {
      if (last.inputs[0] != carry.entering) std::swap(last.inputs[0], last.inputs[1]);
      return;
    }
    std::erase(terms, carry.entering);
    std::vector<NodeId>& nodes = graph_.body(loop_.body).nodes;
    const size_t before = nodes.size();
    GraphBuilder build = beside(graph_, last);
    ValueId sum = terms.front();
    for (size_t i = 1; i < terms.size(); ++i) sum = added(build, sum, terms[i]);
    move_before(additions.front(), before);
    graph_.node(additions.front()).inputs = {carry.entering, sum};
    for (size_t i = 1; i < additions.size(); ++i) std::erase(nodes, additions[i]);
  }

  // ---- slices

  bool is_turn(ValueId value) const {
    while (value != loop_.index) {
      const Node& node = graph_.node(graph_.value(value).producer);
      if (map_function(node.op) != MapFunction::cast) return false;
      value = node.inputs[0];
    }
    return true;
  }

  void take_slices(BodyId body) {
    const std::vector<NodeId> nodes = graph_.body(body).nodes;
    for (const NodeId id : nodes) {
      if (const auto* inner = std::get_if<LoopOp>(&graph_.node(id).op)) take_slices(inner->body);
      const auto* take = std::get_if<TakeOp>(&graph_.node(id).op);
      if (!take || take->dim != loop_.dim || !is_turn(graph_.node(id).inputs[1])) continue;
      const ValueId table = graph_.node(id).inputs[0];
      if (std::ranges::count(inside_, table) == 0 && graph_.value(table).body != loop_.body) slice(id, table);
    }
  }

  /// The lookup becomes the slice under the name that the spec gives it.
  void slice(NodeId id, ValueId table) {
    const ValueType type = graph_.type(graph_.node(id).results[0]);
    auto [turn, fresh] = turn_of_.try_emplace(table);
    if (fresh) {
      const Node& loop = graph_.node(id_);
      GraphBuilder outside = beside(graph_, loop);
      const size_t before = graph_.body(loop.body).nodes.size();
      std::vector<DimId> dims{loop_.dim};
      dims.insert(dims.end(), type.dims.begin(), type.dims.end());
      const ValueId stacked = outside.in_order(table, dims);
      move_before(id_, before);
      turn->second = outside.argument(type, loop_.body, id_);
      loop_.slices.push_back({stacked, turn->second});
    }
    graph_.node(id).op = MapOp{MapFunction::cast};
    graph_.node(id).inputs = {turn->second};
  }

  Graph& graph_;
  const NodeId id_;
  LoopOp loop_;
  std::map<ValueId, int> uses_;
  std::vector<ValueId> inside_;         // that the body's nodes make
  std::map<ValueId, ValueId> turn_of_;  // of a stacked value
};

}  // namespace

void prepare_divisible_loops(Graph& graph, const std::function<bool(const std::string& scope, DimId)>& divides,
                             const std::function<bool(DimId)>& stages) {
  const auto walk = [&](const auto& self, BodyId body) -> void {
    const std::vector<NodeId> nodes = graph.body(body).nodes;
    for (const NodeId id : nodes) {
      const auto* loop = std::get_if<LoopOp>(&graph.node(id).op);
      if (!loop) continue;
      const BodyId inner = loop->body;
      if (divides(graph.node(id).scope, loop->dim)) DivisibleLoop(graph, id).run();
      else if (stages(loop->dim)) DivisibleLoop(graph, id).take_slices();
      self(self, inner);
    }
  };
  walk(walk, graph.root());
  verify_graph(graph, "prepare_divisible_loops");
}

}  // namespace mesh
