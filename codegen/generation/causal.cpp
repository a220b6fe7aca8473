#include "codegen/generation/causal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "codegen/generation/horizons.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

using Forbidden = std::function<bool(const Horizon&)>;

/// The op at which a value first knows more than is allowed.
NodeId first_that_knows(const Graph& graph, const Horizons& horizons, const Forbidden& forbidden, ValueId value,
                        std::set<ValueId>& seen) {
  bool from_operand = false;
  for (const ValueId source : sources_of(graph, value)) {
    if (!forbidden(horizons.of[source.index])) continue;
    from_operand = true;
    if (!seen.insert(source).second) continue;
    if (const NodeId found = first_that_knows(graph, horizons, forbidden, source, seen)) return found;
  }
  const NodeId producer = graph.value(value).producer;
  return from_operand && !horizons.culprits.contains(producer) ? NodeId{} : producer;
}

std::string positions(int64_t count) { return count == 1 ? "one position" : fmt::format("{} positions", count); }

std::string why(const Graph& graph, const Horizon& horizon) {
  if (!horizon.everything.empty()) return horizon.everything;
  for (const auto& [dim, by] : horizon.upto)
    if (by > 0) return fmt::format("it sees {} ahead along `{}`", positions(by), graph.dim(dim).name);
  if (horizon.fixed.value_or(0) > 0)
    return fmt::format("it takes position {}, which earlier ones do not know yet", *horizon.fixed);
  return fmt::format("its `{}` decides how much of the sequence it sees", graph.dim(horizon.upto.begin()->first).name);
}

/// Of a dim of positions that is merged with others, or split: what is made of it may see nothing later, but that is
/// proved along a dim of positions alone.
void report_regrouped(const Graph& graph, const Horizons& horizons, const Node& node, const Regrouping& group,
                      DiagnosticSink& sink) {
  const Generation& asked = *graph.generation;
  const auto name = [&](DimId dim) { return fmt::format("`{}`", graph.dim(dim).name); };
  std::vector<std::string> names;
  for (const DimId part : group.parts) names.push_back(name(part));
  const auto& upto = horizons.of[node.inputs[0].index].upto;
  const auto part = std::ranges::find_if(group.parts, [&](DimId dim) { return upto.contains(dim); });
  const std::string positions = name(part == group.parts.end() ? group.merged : *part);
  auto report = sink.error("E0512", node.span,
                           fmt::format("`{}` cannot be generated: {} is {}, along which positions are not followed",
                                       graph.stored[asked.input.index].path, positions,
                                       group.splits ? fmt::format("split into {}", fmt::join(names, " and "))
                                                    : fmt::format("merged into {}", name(group.merged))));
  report.here("`{}`: one position is computed at a time along a dim of positions alone", op_text(graph, node.op));
  report.label(asked.span, "asked for here");
  if (!node.scope.empty()) report.note(fmt::format("in `{}`", node.scope));
  if (group.splits) report.help("leave {} a dim of its own", positions);
  else
    report.help("leave {} a dim of its own: what does not name {} computes the same along {}", positions,
                name(group.merged), fmt::join(names, " and "));
}

}  // namespace

void prove_causal(const Graph& graph, DiagnosticSink& sink) {
  const Generation& asked = *graph.generation;
  const Horizons horizons = horizons_of(graph, asked.input, asked.along);
  Horizon horizon = horizons.of[asked.logits.index];
  const bool causal = horizon.is_causal();
  horizon.upto.erase(asked.along);
  if (causal && horizon.upto.empty()) return;
  // Other dims may not say how far an element sees: a mask by the number of the sample.
  const auto by_other_dim = [&](const Horizon& one) { return one.upto.contains(horizon.upto.begin()->first); };
  const auto too_far = [](const Horizon& one) { return !one.is_causal(); };
  std::set<ValueId> seen{asked.logits};
  const Forbidden forbidden = causal ? Forbidden(by_other_dim) : Forbidden(too_far);
  NodeId blamed = first_that_knows(graph, horizons, forbidden, asked.logits, seen);
  if (!blamed) blamed = graph.value(asked.logits).producer;
  const Node& node = graph.node(blamed);
  if (const std::optional<Regrouping> group = regrouping(node.op); group && !causal)
    return report_regrouped(graph, horizons, node, *group, sink);
  const auto culprit = horizons.culprits.find(blamed);
  const std::string& along = graph.dim(asked.along).name;
  auto report = sink.error("E0512", node.span,
                           fmt::format("`{}` cannot be generated: at a position of `{}` the model sees later ones",
                                       graph.stored[asked.input.index].path, along));
  report.here(fmt::format("`{}`: {}", op_text(graph, node.op),
                          why(graph, culprit == horizons.culprits.end() ? horizon : culprit->second)));
  report.label(asked.span, "asked for here");
  if (!node.scope.empty()) report.note(fmt::format("in `{}`", node.scope));
  report.help(
      fmt::format("keep later positions out: `mask(score, position[{0}] >= position[key])` before a softmax or "
                  "a reduction, `where:` in a sum, `x[{0} - 1]` for a neighbour",
                  along));
}

}  // namespace mesh
