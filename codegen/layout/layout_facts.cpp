#include "codegen/layout/layout_facts.h"

#include <algorithm>

#include "codegen/graph/op.h"

namespace mesh {

LayoutFacts::LayoutFacts(std::shared_ptr<GraphFacts> of, const Layout& under)
    : of_graph(std::move(of)),
      graph(of_graph->graph),
      layout(under),
      machine(of_graph->machine),
      declared(graph, layout),
      stages(graph, layout),
      divided(divided_loops(graph, layout, stages)),
      rings_(graph.nodes.size()) {
  for (uint32_t i = 0; i < graph.values.size(); ++i) {
    const NodeId made = graph.values[i].producer;
    declared_axes_.push_back(made && of_graph->lives(made) ? declared.of(ValueId{i}) : DeclaredAxes{});
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) rings_[i] = rings_of(graph.nodes[i], of_graph->factors(NodeId{i}));
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

const DeclaredAxes& LayoutFacts::declared_axes(ValueId id) const { return declared_axes_[id.index]; }

const std::vector<AxisId>& LayoutFacts::ruled_rings(NodeId id) const { return rings_[id.index]; }

}  // namespace mesh
