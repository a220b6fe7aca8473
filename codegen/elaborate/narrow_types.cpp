#include "codegen/elaborate/narrow_types.h"

#include <algorithm>

#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh::elaboration {
namespace {

/// What stands for the node's results: the same op of wide operands, and its results rounded to the types that they
/// have. Nothing where it reads no narrow value, or computes with those itself.
std::vector<ValueId> widened(GraphBuilder& build, NodeId id) {
  Graph& graph = build.graph;
  const Node node = graph.node(id);
  const auto reads_narrow = [&](ValueId value) { return is_narrow(graph.type(value).element); };
  if (definition(node.op).narrow != Narrow::widened || std::ranges::none_of(node.inputs, reads_narrow)) return {};
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(build.computed(input));
  std::vector<ValueId> results = graph.node(build.append(node.op, inputs)).results;
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueType type = graph.type(node.results[i]);
    if (!is_narrow(type.element)) continue;
    graph.value(results[i]).label = graph.value(node.results[i]).name;
    results[i] = build.cast(results[i], type.element, type.index_of);
  }
  return results;
}

void widen(Elaboration& e, ValueId& value) {
  if (value) value = e.build.computed(value);
}

}  // namespace

void widen_narrow_types(Elaboration& e) {
  expand_nodes(e.graph, widened);
  for (Output& output : e.graph.outputs)
    if (!output.stored) widen(e, output.value);
  for (Wanted& wanted : e.graph.wanted) widen(e, wanted.value);
  for (Metric& metric : e.graph.metrics) widen(e, metric.value);
  if (e.graph.objective) widen(e, e.graph.objective->loss);
}

}  // namespace mesh::elaboration
