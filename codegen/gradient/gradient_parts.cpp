#include "codegen/gradient/gradient_parts.h"

#include <set>

#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

class Parts {
 public:
  Parts(Graph& graph, uint32_t first) : graph_(graph), first_(first) {}

  /// What I needs: the operands of loops' carried gradients and everything they depend on.
  void run() {
    mark_loops(graph_.root());
    while (!work_.empty()) {
      const ValueId value = work_.back();
      work_.pop_back();
      if (graph_.value(value).producer.index < first_) continue;
      for (ValueId source : sources_of(graph_, value)) need(source);
    }
    for (uint32_t i = first_; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (node.part == Part::recompute) continue;
      bool needed = std::holds_alternative<LoopOp>(node.op);
      for (ValueId result : node.results) needed |= needed_.count(result) > 0;
      node.part = needed ? Part::input_gradient : Part::weight_gradient;
    }
  }

 private:
  void need(ValueId value) {
    if (value && needed_.insert(value).second) work_.push_back(value);
  }

  /// A backward loop hands on the gradients it carries. What it only adds up for a parameter outside is W.
  void mark_loops(BodyId body) {
    for (NodeId id : graph_.body(body).nodes) {
      const LoopOp* loop = std::get_if<LoopOp>(&graph_.node(id).op);
      if (!loop) continue;
      if (id.index >= first_)
        for (const auto& c : loop->carries)
          if (is_handed_on(*loop, c)) need(c.initial), need(c.leaving);
      mark_loops(loop->body);
    }
  }

  bool is_handed_on(const LoopOp& loop, const LoopOp::Carry& carry) const {
    if (has_samples(graph_, graph_.type(carry.entering))) return true;
    return carry.leaving != carry.entering && !only_adds_up(graph_, loop, carry);
  }

  Graph& graph_;
  uint32_t first_;
  std::set<ValueId> needed_;
  std::vector<ValueId> work_;
};

}  // namespace

void mark_gradient_parts(Graph& graph, uint32_t first_node) { Parts(graph, first_node).run(); }

}  // namespace mesh
