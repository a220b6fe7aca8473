#include "codegen/layout/margins.h"

#include <algorithm>
#include <set>

namespace mesh {
namespace {

bool has_window(const Factor& factor, size_t operand) {
  return factor.window && std::ranges::count(factor.window->operands, operand) > 0;
}

bool reads_beside(const Factor& factor, size_t operand) {
  return factor.operands[operand] && (factor.margin || has_window(factor, operand));
}

}  // namespace

Margins::Margins(const Graph& graph) {
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes) {
      const Node& node = graph.node(id);
      for (const Factor& factor : definition(node.op).factors(graph, node))
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          if (!reads_beside(factor, i)) continue;
          Ask ask{factor.margin, has_window(factor, i) ? factor.window : std::nullopt};
          std::vector<Ask>& all = asked_[{node.inputs[i], factor.operands[i]}];
          if (std::ranges::find(all, ask) == all.end()) all.push_back(std::move(ask));
        }
    }
}

/// Windows do not look beyond the ends, so any edge serves them: that of the neighbours that others read, if all of
/// those read with one. Who reads neighbours itself has its own edge.
Margin Margins::of(const Node& node, const std::vector<Factor>& factors, size_t f, size_t operand,
                   int64_t parts) const {
  const bool beside = std::ranges::any_of(factors, [&](const Factor& one) { return reads_beside(one, operand); });
  const auto found = asked_.find({node.inputs[operand], factors[f].operands[operand]});
  if (!beside) return {};
  if (found == asked_.end()) return factors[f].margin;
  std::set<Edge> edges;
  for (const Ask& ask : found->second)
    if (ask.margin) edges.insert(ask.margin.edge);
  const std::optional<Edge> edge = factors[f].margin   ? std::optional(factors[f].margin.edge)
                                   : edges.size() == 1 ? std::optional(*edges.begin())
                                                       : std::nullopt;
  Margin all;
  const auto join = [&](const Margin& margin) {
    all.before = std::max(all.before, margin.before);
    all.after = std::max(all.after, margin.after);
  };
  for (const Ask& ask : found->second) {
    if (ask.window) join(ask.window->margin(parts));
    else if (ask.margin.edge == edge) join(ask.margin);
  }
  if (all && edge) all.edge = *edge;
  return all;
}

}  // namespace mesh
