#include "codegen/rewrites/sink_renames.h"

#include <algorithm>
#include <optional>

#include "codegen/graph/dims.h"
#include "codegen/graph/ops/definitions.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

/// The nameless rename that gives the value.
const Node* rename_of(const Graph& graph, ValueId value) {
  const Node& node = graph.node(graph.value(value).producer);
  return graph.value(value).name.empty() && is_rename(node.op) ? &node : nullptr;
}

/// The operands without the rename, where the op would give the same of them but for the names of dims. The other
/// operands, and the op itself, must know neither the old names nor the new ones.
std::optional<std::vector<ValueId>> operands_before(const Graph& graph, const Node& node, const RenameOp& rename) {
  const auto concerned = [&](DimId dim) { return has(rename.from, dim) || has(rename.to, dim); };
  bool apart = true;
  Op op = node.op;
  for_each_dim(op, [&](DimId& dim) { apart = apart && !concerned(dim); });
  std::vector<ValueId> before;
  for (ValueId input : node.inputs) {
    const Node* renamed = rename_of(graph, input);
    const bool taken_back = renamed != nullptr && std::get<RenameOp>(renamed->op) == rename;
    apart = apart && (taken_back || std::ranges::none_of(graph.type(input).dims, concerned));
    before.push_back(taken_back ? renamed->inputs[0] : input);
  }
  if (!apart) return {};
  return before;
}

ValueId sink(GraphBuilder& build, const Node& node, const RenameOp& rename, std::vector<ValueId> before) {
  const ValueId result = node.results[0];
  const ValueId earlier = build.value(node.op, std::move(before));
  ValueType type = build.graph.type(result);  // a cast says of which type itself
  for (DimId& dim : type.dims) dim = renamed(RenameOp{rename.to, rename.from}, dim);
  Value& value = build.graph.value(earlier);
  value.type = type;
  value.label = known_as(build.graph, result);
  return build.rename(earlier, rename.from, rename.to);
}

bool sink_once(Graph& graph) {
  bool found = false;
  expand_nodes(graph, [&](GraphBuilder& build, NodeId id) -> std::vector<ValueId> {
    const Node node = build.graph.node(id);
    if (!definition(node.op).names_dims_alike) return {};
    for (ValueId input : node.inputs) {
      const Node* of = rename_of(build.graph, input);
      if (of == nullptr) continue;
      const RenameOp rename = std::get<RenameOp>(of->op);
      auto before = operands_before(build.graph, node, rename);
      if (!before) continue;
      found = true;
      return {sink(build, node, rename, std::move(*before))};
    }
    return {};
  });
  return found;
}

}  // namespace

void sink_renames(Graph& graph) {
  while (sink_once(graph)) {}
  verify_graph(graph, "sink_renames");
}

}  // namespace mesh
