#include "codegen/elaborate/unused_parameters.h"

#include <fmt/format.h>

#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

/// By value: whether `end` is made of it.
std::vector<bool> made_of(const Graph& graph, ValueId end) {
  std::vector<bool> found(graph.values.size());
  std::vector<ValueId> work;
  const auto reach = [&](ValueId value) {
    if (!value || found[value.index]) return;
    found[value.index] = true;
    work.push_back(value);
  };
  reach(end);
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    for (ValueId source : sources_of(graph, value)) reach(source);
    if (const auto* loop = std::get_if<LoopOp>(&graph.node(graph.value(value).producer).op)) reach(until(graph, *loop));
  }
  return found;
}

}  // namespace

void report_unused_parameters(const Graph& graph, DiagnosticSink& sink) {
  if (!graph.objective) return;
  const std::vector<bool> used = made_of(graph, graph.objective->loss);
  for (const Objective::Parameter& parameter : graph.objective->parameters) {
    const Stored& stored = graph.stored[parameter.stored.index];
    if (stored.frozen || used[stored.value.index]) continue;
    sink.lint("unused_parameter", stored.span, fmt::format("the loss does not depend on parameter `{}`", stored.path))
        .here("its gradient is 0 in every step")
        .label(graph.objective->span, "it is trained, with the optimizer's state and its updates")
        .help(fmt::format("leave it out, or leave it as it is: `{} {{ frozen }}` in the braces of `minimize`",
                          stored.path));
  }
}

}  // namespace mesh
