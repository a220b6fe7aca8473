#include "codegen/layout/margins.h"

#include <algorithm>
#include <optional>
#include <set>

namespace mesh {
namespace {

bool has_window(const Factor& factor, size_t operand) {
  return factor.window && std::ranges::count(factor.window->operands, operand) > 0;
}

/// What lies beyond the ends for who asks so; nothing where that is not read.
std::optional<Edge> edge_of(const Margin& margin, const std::optional<WindowReach>& window) {
  if (margin) return margin.edge;
  return window && window->zeros_beyond ? std::optional(Edge{}) : std::nullopt;
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

/// Windows that do not look beyond the ends are served by any edge: that of the neighbours that others read, if all of
/// those read with one. Who reads neighbours itself has its own edge.
Margin Margins::of(const Node& node, const std::vector<Factor>& factors, size_t f, size_t operand,
                   int64_t parts) const {
  const bool beside = std::ranges::any_of(factors, [&](const Factor& one) { return reads_beside(one, operand); });
  const auto found = asked_.find({node.inputs[operand], factors[f].operands[operand]});
  if (!beside) return {};
  if (found == asked_.end()) return factors[f].margin;
  std::set<Edge> edges;
  for (const Ask& ask : found->second)
    if (const std::optional<Edge> needed = edge_of(ask.margin, ask.window)) edges.insert(*needed);
  std::optional<Edge> edge = edge_of(factors[f].margin, factors[f].window);
  if (!edge && edges.size() == 1) edge = *edges.begin();
  Margin all;
  const auto join = [&](const Margin& margin) {
    all.before = std::max(all.before, margin.before);
    all.after = std::max(all.after, margin.after);
  };
  for (const Ask& ask : found->second) {
    const std::optional<Edge> needed = edge_of(ask.margin, ask.window);
    if (needed && needed != edge) continue;
    join(ask.window ? ask.window->margin(parts) : ask.margin);
  }
  if (all && edge) all.edge = *edge;
  return all;
}

}  // namespace mesh
