#include "codegen/layout/layout_facts.h"

#include <algorithm>

#include "codegen/graph/op.h"

namespace mesh {

LayoutFacts::LayoutFacts(Graph of, const Layout& under, const Machine& on, ReshardPlanner& planner)
    : graph(std::move(of)),
      layout(under),
      machine(on),
      planner(planner),
      declared(graph, layout),
      stages(graph, layout),
      divided(divided_loops(graph, layout, stages)),
      margins(graph),
      factors_(graph.nodes.size()),
      beside_(graph.nodes.size()),
      rings_(graph.nodes.size()),
      places_(graph.nodes.size()),
      ends_(graph.nodes.size()),
      known_(graph.nodes.size()) {
  size_t place = 0;
  walk(graph.root(), place);
  for (uint32_t i = 0; i < graph.values.size(); ++i) {
    const NodeId made = graph.values[i].producer;
    const bool lives = made && ends_[made.index] > 0;
    declared_axes_.push_back(lives ? declared.of(ValueId{i}) : DeclaredAxes{});
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) rings_[i] = rings_of(graph.nodes[i], factors_[i]);
}

std::vector<AxisId> LayoutFacts::rings_of(const Node& node, const std::vector<Factor>& factors) const {
  std::vector<AxisId> axes;
  for (const Factor& factor : factors)
    for (size_t i = 1; factor.circulates && i < node.inputs.size(); ++i) {
      const std::vector<DimId>& dims = graph.type(node.inputs[i]).dims;
      const auto dim = std::ranges::find(dims, factor.operands[i]);
      if (factor.operands[i] == factor.operands[0] || dim == dims.end()) continue;
      const auto& ruled = declared_axes(node.inputs[i])[static_cast<size_t>(dim - dims.begin())];
      if (ruled) axes.insert(axes.end(), ruled->axes.begin(), ruled->axes.end());
    }
  return axes;
}

void LayoutFacts::walk(BodyId body, size_t& place) {
  for (const NodeId id : graph.body(body).nodes) {
    const Node& node = graph.node(id);
    places_[id.index] = place++;
    factors_[id.index] = definition(node.op).factors(graph, node);
    beside_[id.index] = mesh::reads_beside(graph, node);
    if (may_stretch(id)) first_stretched_ = std::min(first_stretched_, places_[id.index]);
    if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) walk(loop->body, place);
    ends_[id.index] = place;
  }
}

const std::vector<Factor>& LayoutFacts::factors(NodeId id) const { return factors_[id.index]; }

bool LayoutFacts::may_stretch(NodeId id) const {
  return std::ranges::any_of(factors(id), [](const Factor& f) { return f.is_stretched() || f.slower >= 0; });
}

const DeclaredAxes& LayoutFacts::declared_axes(ValueId id) const { return declared_axes_[id.index]; }

const std::vector<AxisId>& LayoutFacts::ruled_rings(NodeId id) const { return rings_[id.index]; }

size_t LayoutFacts::place_of(NodeId id) const { return places_[id.index]; }

size_t LayoutFacts::end_of_loop(NodeId id) const { return ends_[id.index]; }

bool LayoutFacts::reads_beside(NodeId id) const { return beside_[id.index]; }

std::shared_ptr<const PricedStrategies> LayoutFacts::strategies(const OpContext& op, NodeId id) {
  const auto priced = [&] {
    return std::make_shared<const PricedStrategies>(price(op, mesh::strategies(op), machine, planner));
  };
  if (op.node.inputs != graph.node(id).inputs) return priced();  // what is read with margins is known by its value
  std::vector<Known>& known = known_[id.index];
  const auto found = std::ranges::find_if(known, [&](const Known& one) { return one.surroundings == op; });
  if (found != known.end()) return found->strategies;
  if (known.size() == most_known) known.erase(known.begin());
  return known.emplace_back(op, priced()).strategies;
}

}  // namespace mesh
