// layout_facts.h: what is known of a graph under a layout before anything is decided of its placements, the same for
// each try to place it.
#pragma once
#include <memory>
#include <vector>

#include "codegen/layout/declared.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/graph_facts.h"
#include "codegen/layout/stages.h"

namespace mesh {

class LayoutFacts {
 public:
  LayoutFacts(std::shared_ptr<GraphFacts>, const Layout&);
  LayoutFacts(const LayoutFacts&) = delete;

  const DeclaredAxes& declared_axes(ValueId) const;
  /// Axes over which rules split what may go round while a node works on it.
  const std::vector<AxisId>& ruled_rings(NodeId) const;

  const std::shared_ptr<GraphFacts> of_graph;
  const Graph& graph;
  const Layout& layout;
  const Machine& machine;
  const Declared declared;
  const Stages stages;
  const DividedLoops divided;

 private:
  std::vector<AxisId> rings_of(const Node&, const std::vector<Factor>&) const;

  std::vector<DeclaredAxes> declared_axes_;  // by value
  std::vector<std::vector<AxisId>> rings_;   // by node
};

}  // namespace mesh
