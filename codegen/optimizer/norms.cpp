#include "codegen/optimizer/norms.h"

#include <algorithm>

#include "codegen/graph/value_names.h"

namespace mesh {

std::map<StoredId, ValueId> gradients_of(const Graph& graph) {
  std::map<StoredId, ValueId> gradients;
  if (!graph.objective) return gradients;
  for (const Objective::Parameter& parameter : graph.objective->parameters) {
    const auto found = graph.names.find(gradient_name(graph.stored[parameter_of(graph, parameter.stored).index].path));
    if (found != graph.names.end()) gradients[parameter.stored] = found->second;
  }
  return gradients;
}

void read_gradients(Graph& graph) {
  GraphBuilder build(graph);
  build.span = graph.objective ? graph.objective->span : Span{};
  for (const auto& [parameter, gradient] : gradients_of(graph)) {
    const std::string name = gradient_name(graph.stored[parameter_of(graph, parameter).index].path);
    const StoredId given = build.stored(StoredKind::input, name, graph.type(gradient), {});
    graph.names[name] = graph.stored[given.index].value;
  }
}

ValueId sum_of_squares(GraphBuilder& build, ValueId value, StoredId of) {
  std::vector<DimId> dims = build.graph.type(value).dims;
  if (const DimId replica = build.graph.replicas.turns) std::erase(dims, replica);
  const ValueId squares = build.reduce(Reduce::sum, build.map(MapFunction::square, {build.computed(value)}), dims);
  build.graph.value(squares).label = "squares_" + build.graph.stored[of.index].path;
  return squares;
}

ValueId gradient_norm(GraphBuilder& build, const std::map<StoredId, ValueId>& gradients) {
  ValueId total;
  for (const auto& [id, gradient] : gradients) {
    const ValueId squares = sum_of_squares(build, gradient, id);
    total = total ? build.add(total, squares) : squares;
  }
  if (!total) return {};
  const ValueId norm = build.map(MapFunction::sqrt, {total});
  build.graph.value(norm).name = norm_name;
  build.graph.names[norm_name] = norm;
  return norm;
}

ValueId over_replicas(GraphBuilder& build, ValueId value) {
  const std::vector<DimId> replicas = build.graph.type(value).dims;
  if (replicas.empty()) return value;
  const auto count = static_cast<double>(build.graph.dim(replicas.front()).size);
  if (build.graph.type(value).element == Type::i32) value = build.cast(value, Type::f32);
  return build.multiply(build.reduce(Reduce::sum, value, replicas), 1 / count);
}

}  // namespace mesh
