#include "codegen/layout/product_groups.h"

#include <algorithm>

#include "codegen/graph/op.h"
#include "codegen/layout/decisions.h"

namespace mesh {

ProductGroups::ProductGroups(const Graph& graph) : graph_(graph) {
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes)
      for (const ValueId input : graph.node(id).inputs) readers_[input].push_back(id);
}

std::vector<std::map<NodeId, int>> ProductGroups::of(NodeId id) const {
  std::vector<std::map<NodeId, int>> ways;
  if (!is_product(id)) return ways;
  for (const ValueId input : graph_.node(id).inputs)
    if (std::map<NodeId, int> group = sharing(input, id); group.size() > 1) ways.push_back(std::move(group));
  std::vector<NodeId> terms;
  terms_of(sum_with(graph_.node(id).results[0]), terms);
  if (terms.size() < 2) return ways;
  std::map<NodeId, int> stay;
  for (const NodeId term : terms) stay.emplace(term, Decisions::nothing);
  std::map<NodeId, int> wider = stay;
  for (const NodeId term : terms)
    for (const ValueId operand : graph_.node(term).inputs)
      for (const NodeId reader : readers(operand)) {
        if (!is_product(reader) || !in_one_phase(reader, term) || stay.contains(reader)) continue;
        for (const ValueId other : graph_.node(reader).inputs)
          if (const std::map<NodeId, int> group = sharing(other, reader); other != operand && group.size() > 1)
            wider.insert(group.begin(), group.end());
      }
  ways.push_back(stay);
  if (wider != stay) ways.push_back(std::move(wider));
  return ways;
}

bool ProductGroups::is_product(NodeId id) const {
  const Node& node = graph_.node(id);
  return node.results.size() == 1 && definition(node.op).effort(node.op) == Effort::product;
}

bool ProductGroups::in_one_phase(NodeId a, NodeId b) const {
  const Node &first = graph_.node(a), &second = graph_.node(b);
  return first.body == second.body && (first.part == Part::forward) == (second.part == Part::forward);
}

const std::vector<NodeId>& ProductGroups::readers(ValueId value) const {
  static const std::vector<NodeId> none;
  const auto found = readers_.find(value);
  return found == readers_.end() ? none : found->second;
}

/// The products of a value, with its place among the operands of each.
std::map<NodeId, int> ProductGroups::sharing(ValueId value, NodeId like) const {
  std::map<NodeId, int> group;
  for (const NodeId reader : readers(value)) {
    if (!is_product(reader) || !in_one_phase(reader, like)) continue;
    const std::vector<ValueId>& inputs = graph_.node(reader).inputs;
    group.emplace(reader, static_cast<int>(std::ranges::find(inputs, value) - inputs.begin()));
  }
  return group;
}

/// The sum that a value enters as a term, itself or renamed; the value where there is none.
ValueId ProductGroups::sum_with(ValueId value) const {
  while (readers(value).size() == 1) {
    const Node& reader = graph_.node(readers(value)[0]);
    if (!is_addition(reader.op) && !is_rename(reader.op)) break;
    if (reader.body != graph_.value(value).body) break;
    value = reader.results[0];
  }
  return value;
}

void ProductGroups::terms_of(ValueId sum, std::vector<NodeId>& products) const {
  const NodeId producer = graph_.value(sum).producer;
  const Node& node = graph_.node(producer);
  if (is_product(producer)) products.push_back(producer);
  if (!is_addition(node.op) && !is_rename(node.op)) return;
  for (const ValueId term : node.inputs)
    if (readers(term).size() == 1 && graph_.value(term).body == node.body) terms_of(term, products);
}

}  // namespace mesh
