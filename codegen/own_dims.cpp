#include "codegen/own_dims.h"

#include <algorithm>
#include <map>

namespace mesh {

void give_own_dims(ShardedGraph& entry, Graph& first, DiagnosticSink& sink) {
  Graph& graph = entry.graph;
  std::map<DimId, DimId> other;
  for (uint32_t i = 0; i < graph.dims.size(); ++i) {
    const Dim& dim = graph.dims[i];
    if (i < first.dims.size() && dim.name == first.dims[i].name && dim.size == first.dims[i].size) continue;
    other[DimId{i}] = DimId{static_cast<uint32_t>(first.dims.size())};
    first.dims.push_back(dim);
  }
  if (other.empty()) return;
  for (const Stored& stored : graph.stored)
    for (const DimId dim : stored.type.dims)
      if (other.contains(dim))
        sink.error("E0223", stored.span, "`{}` outlives a step, and `{}` has another size in training than elsewhere",
                   stored.path, graph.dim(dim).name)
            .label(graph.dim(dim).span, "declared here");
  const auto rename = [&](DimId& dim) {
    if (const auto found = other.find(dim); found != other.end()) dim = found->second;
  };
  for (Value& value : graph.values) {
    rename(value.type.index_of);
    for (DimId& dim : value.type.dims) rename(dim);
  }
  for (Node& node : graph.nodes) {
    for_each_dim(node.op, rename);
    if (LiteralOp* literal = std::get_if<LiteralOp>(&node.op)) std::ranges::for_each(literal->counts, rename);
  }
  graph.dims = first.dims;
}

}  // namespace mesh
