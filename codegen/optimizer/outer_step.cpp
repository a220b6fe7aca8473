#include "codegen/optimizer/outer_step.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/optimizer/write.h"

namespace mesh {
namespace {

constexpr const char* momentum_suffix = ".outer_momentum";

/// A parameter, and what each replica has of it.
struct Parameter {
  StoredId shared, own;
};

std::vector<Parameter> trained(const Graph& graph) {
  std::vector<Parameter> all;
  for (const Objective::Parameter& parameter : graph.objective->parameters)
    if (!graph.stored[parameter.stored.index].frozen)
      all.push_back({parameter_of(graph, parameter.stored), parameter.stored});
  return all;
}

/// The stored tensors of a step, and nothing that reads them.
Graph without_step(const Graph& step) {
  Graph graph = step;
  graph.objective.reset();
  graph.metrics.clear();
  graph.outputs.clear();
  graph.wanted.clear();
  graph.names.clear();
  for (Body& body : graph.bodies)
    std::erase_if(body.nodes, [&](NodeId id) { return !std::holds_alternative<ReadOp>(graph.node(id).op); });
  return graph;
}

GraphBuilder updates_of(Graph& graph, const Objective& objective) {
  GraphBuilder build(graph);
  build.part = Part::update;
  build.span = objective.span;
  return build;
}

/// Every replica goes on from `value`.
void hand_to_replicas(GraphBuilder& build, const Parameter& parameter, ValueId value) {
  const std::vector<DimId> replica{build.graph.replicas.turns};
  const ValueId copies = build.broadcast(value, replica);
  build.append(UpdateOp{parameter.own}, {build.in_order(copies, build.graph.stored[parameter.own.index].type.dims)});
}

}  // namespace

void store_outer_momentum(Graph& graph, const OuterStep& outer) {
  if (outer.momentum == 0) return;
  for (const Parameter& parameter : trained(graph)) {
    const Stored shared = graph.stored[parameter.shared.index];
    GraphBuilder build(graph);
    build.span = shared.span;
    ValueType type = shared.type;
    type.element = computed_in(type.element);
    const StoredId id = build.stored(StoredKind::optimizer, shared.path + momentum_suffix, type, {}, parameter.shared);
    graph.stored[id.index].stacked = shared.stacked;
  }
}

Graph outer_step(const Graph& step, const OuterStep& outer) {
  Graph graph = without_step(step);
  GraphBuilder build = updates_of(graph, *step.objective);
  const std::vector<DimId> replica{graph.replicas.turns};
  const auto count = static_cast<double>(graph.dim(graph.replicas.turns).size);
  for (const Parameter& parameter : trained(step)) {
    const Stored shared = graph.stored[parameter.shared.index];
    const ValueId sum = build.reduce(Reduce::sum, build.computed(graph.stored[parameter.own.index].value), replica);
    graph.value(sum).label = "sum_" + shared.path;
    const ValueId mean = build.multiply(sum, 1 / count);
    graph.value(mean).label = "mean_" + shared.path;
    const ValueId had = build.computed(shared.value);
    const ValueId gradient = build.subtract(had, build.in_order(mean, shared.type.dims));
    ValueId change = gradient;
    if (outer.momentum != 0) {
      const auto buffer = std::ranges::find(graph.stored, shared.path + momentum_suffix, &Stored::path);
      const ValueId now = build.add(build.multiply(buffer->value, outer.momentum), gradient);
      build.append(UpdateOp{StoredId{static_cast<uint32_t>(buffer - graph.stored.begin())}}, {now});
      change = outer.nesterov ? build.add(gradient, build.multiply(now, outer.momentum)) : now;
    }
    const ValueId next = build.subtract(had, build.multiply(change, outer.rate));
    hand_to_replicas(build, parameter, write(build, parameter.shared, next));
  }
  verify_graph(graph, "outer_step");
  return graph;
}

Graph begin_replicas(const Graph& step) {
  Graph graph = without_step(step);
  GraphBuilder build = updates_of(graph, *step.objective);
  for (const Parameter& parameter : trained(step))
    hand_to_replicas(build, parameter, graph.stored[parameter.shared.index].value);
  verify_graph(graph, "begin_replicas");
  return graph;
}

StoredId first_of_replicas(const Graph& step) { return trained(step).front().own; }

}  // namespace mesh
