#include "codegen/graph/turn_terms.h"

#include "codegen/graph/op.h"

namespace mesh {

std::vector<TurnTerm> turn_terms(const Graph& graph, ValueId value) {
  const Node& node = graph.node(graph.value(value).producer);
  const std::optional<MapFunction> function = map_function(node.op);
  if (function != MapFunction::add && function != MapFunction::multiply) return {{value, 1}};
  std::vector<TurnTerm> terms = turn_terms(graph, node.inputs[0]);
  if (function == MapFunction::add) {
    for (const TurnTerm& term : turn_terms(graph, node.inputs[1])) terms.push_back(term);
    return terms;
  }
  const auto times = literal_number(graph, node.inputs[1]);
  if (!times) return {{value, 1}};
  for (TurnTerm& term : terms) term.times *= static_cast<int64_t>(*times);
  return terms;
}

}  // namespace mesh
