#include "codegen/layout/graph_facts.h"

#include <algorithm>

#include "codegen/graph/hash.h"
#include "codegen/graph/op.h"

namespace mesh {
namespace {

size_t hash_of(const Surroundings& around) {
  size_t hash = around.operands.size();
  for (const std::optional<Placement>& operand : around.operands)
    hash = hash_with(hash, operand ? hash_of(*operand) : 0);
  for (const DeclaredAxes& axes : around.bound)
    for (const std::optional<DimPlacement>& dim : axes) {
      hash = hash_with(hash, dim ? 1 : 0);
      if (dim)
        for (const AxisId axis : dim->axes) hash = hash_with(hash, axis);
    }
  return hash;
}

}  // namespace

GraphFacts::GraphFacts(Graph of, const Machine& on, std::shared_ptr<ReshardPlanner> ways)
    : graph(std::move(of)),
      machine(on),
      planner(std::move(ways)),
      margins(graph),
      factors_(graph.nodes.size()),
      beside_(graph.nodes.size()),
      places_(graph.nodes.size()),
      ends_(graph.nodes.size()),
      met_(graph.nodes.size()) {
  size_t place = 0;
  walk(graph.root(), place);
}

void GraphFacts::walk(BodyId body, size_t& place) {
  for (const NodeId id : graph.body(body).nodes) {
    const Node& node = graph.node(id);
    places_[id.index] = place++;
    factors_[id.index] = definition(node.op).factors(graph, node);
    beside_[id.index] = mesh::reads_beside(graph, node);
    if (may_stretch(id)) first_stretched_ = std::min(first_stretched_, places_[id.index]);
    if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) walk(loop->body, place);
    ends_[id.index] = place;
  }
}

const std::vector<Factor>& GraphFacts::factors(NodeId id) const { return factors_[id.index]; }

bool GraphFacts::may_stretch(NodeId id) const {
  return std::ranges::any_of(factors(id), [](const Factor& f) { return f.is_stretched() || f.slower >= 0; });
}

size_t GraphFacts::place_of(NodeId id) const { return places_[id.index]; }

size_t GraphFacts::end_of_loop(NodeId id) const { return ends_[id.index]; }

bool GraphFacts::lives(NodeId id) const { return ends_[id.index] > 0; }

bool GraphFacts::reads_beside(NodeId id) const { return beside_[id.index]; }

std::shared_ptr<const PricedStrategies> GraphFacts::strategies(const OpContext& op, NodeId id) {
  const auto priced = [&] {
    return std::make_shared<const PricedStrategies>(price(op, mesh::strategies(op), machine, *planner));
  };
  if (op.node.inputs != graph.node(id).inputs) return priced();  // what is read with margins is known by its value
  Met& met = met_[id.index];
  const size_t hash = hash_of(op);
  for (size_t i = 0; i < met.hashes.size(); ++i)
    if (met.hashes[i] == hash && met.surroundings[i] == op) return met.strategies[i];
  std::shared_ptr<const PricedStrategies> made = priced();
  if (met.hashes.size() < most_met) {
    met.next = met.hashes.size();
    met.hashes.emplace_back();
    met.surroundings.emplace_back();
    met.strategies.emplace_back();
  }
  const size_t at = met.next++ % most_met;
  met.hashes[at] = hash;
  met.surroundings[at] = op;
  return met.strategies[at] = std::move(made);
}

std::shared_ptr<GraphFacts> facts_of(const Graph& graph, const MeshShape& mesh, const Machine& machine) {
  return std::make_shared<GraphFacts>(graph, machine, std::make_shared<ReshardPlanner>(graph, mesh, machine));
}

}  // namespace mesh
