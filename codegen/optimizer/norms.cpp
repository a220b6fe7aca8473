#include "codegen/optimizer/norms.h"

namespace mesh {

std::map<StoredId, ValueId> gradients_of(const Graph& graph) {
  std::map<StoredId, ValueId> gradients;
  if (!graph.objective) return gradients;
  for (const Objective::Parameter& parameter : graph.objective->parameters) {
    const auto found = graph.names.find("grad(" + graph.stored[parameter.stored.index].path + ")");
    if (found != graph.names.end()) gradients[parameter.stored] = found->second;
  }
  return gradients;
}

ValueId sum_of_squares(GraphBuilder& build, ValueId value, StoredId of) {
  const std::vector<DimId> dims = build.graph.type(value).dims;
  const ValueId squares = build.reduce(Reduce::sum, build.map(MapFunction::square, {value}), dims);
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

}  // namespace mesh
