#include "codegen/graph/rewrite.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "codegen/graph/hash.h"
#include "codegen/graph/op.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

void visit_loop(LoopOp& loop, const std::function<void(ValueId&)>& visit) {
  for (auto& c : loop.carries) {
    visit(c.initial);
    visit(c.leaving);
  }
  for (auto& s : loop.slices) visit(s.stacked);
  for (auto& c : loop.collects) visit(c.turn);
}

ValueId resolve(const std::map<ValueId, ValueId>& replaced, ValueId id) {
  for (auto found = replaced.find(id); found != replaced.end(); found = replaced.find(id)) id = found->second;
  return id;
}

void replace_values(Graph& graph, const std::map<ValueId, ValueId>& replaced) {
  if (replaced.empty()) return;
  for (const auto& [old, now] : replaced) {
    const ValueId last = resolve(replaced, now);
    graph.value(last).take_names(graph.value(old));
    if (graph.value(last).label.empty()) graph.value(last).label = graph.value(old).label;
  }
  for_each_use(graph, [&](ValueId& id) {
    if (id) id = resolve(replaced, id);
  });
}

}  // namespace

void for_each_use(Graph& graph, const std::function<void(ValueId&)>& visit) {
  for (Node& node : graph.nodes) for_each_read(node, visit);
  for_each_caller(graph, visit);
  if (graph.generation) visit(graph.generation->logits);
  for (auto& [name, value] : graph.names) visit(value);
}

std::vector<ValueId> sources_of(const Graph& graph, ValueId value) {
  const Node& node = graph.node(graph.value(value).producer);
  const LoopOp* loop = std::get_if<LoopOp>(&node.op);
  if (loop == nullptr) return node.inputs;
  std::vector<ValueId> sources;
  for (const auto& carry : loop->carries)
    if (carry.result == value || carry.entering == value) sources.insert(sources.end(), {carry.initial, carry.leaving});
  for (const auto& slice : loop->slices)
    if (slice.turn == value) sources.push_back(slice.stacked);
  for (const auto& gathered : loop->collects)
    if (gathered.stacked == value) sources.push_back(gathered.turn);
  return sources;
}

void for_each_caller(Graph& graph, const std::function<void(ValueId&)>& visit) {
  for (Metric& metric : graph.metrics) visit(metric.value);
  for (Wanted& wanted : graph.wanted) visit(wanted.value);
  for (Output& output : graph.outputs)
    if (output.value) visit(output.value);
  if (graph.objective) visit(graph.objective->loss);
}

void for_each_read(Node& node, const std::function<void(ValueId&)>& visit) {
  for (ValueId& input : node.inputs) visit(input);
  if (LoopOp* loop = std::get_if<LoopOp>(&node.op)) visit_loop(*loop, visit);
}

void for_each_read(const Node& node, const std::function<void(ValueId)>& visit) {
  for (const ValueId input : node.inputs) visit(input);
  const LoopOp* loop = std::get_if<LoopOp>(&node.op);
  if (loop == nullptr) return;
  for (const auto& carry : loop->carries) {
    visit(carry.initial);
    visit(carry.leaving);
  }
  for (const auto& slice : loop->slices) visit(slice.stacked);
  for (const auto& collect : loop->collects) visit(collect.turn);
}

void for_each_source(const Graph& graph, const Node& node, const std::function<void(ValueId)>& visit) {
  const std::function<void(const Node&)> walk = [&](const Node& at) {
    for_each_read(at, [&](ValueId value) {
      if (value && graph.value(value).body == node.body) visit(value);
    });
    if (const auto* loop = std::get_if<LoopOp>(&at.op))
      for (const NodeId inner : graph.body(loop->body).nodes) walk(graph.node(inner));
  };
  walk(node);
}

int64_t reads_in(const Graph& graph, const LoopOp& loop, ValueId value) {
  int64_t reads = 0;
  const auto count = [&](ValueId read) { reads += read == value ? 1 : 0; };
  for (const NodeId id : graph.body(loop.body).nodes) for_each_source(graph, graph.node(id), count);
  for (const LoopOp::Carry& carry : loop.carries) count(carry.leaving);
  for (const LoopOp::Collect& collect : loop.collects) count(collect.turn);
  return reads;
}

bool only_adds_up(const Graph& graph, const LoopOp& loop, const LoopOp::Carry& carry) {
  const Node& last = graph.node(graph.value(carry.leaving).producer);
  if (!is_addition(last.op) || last.inputs[0] != carry.entering) return false;
  return reads_in(graph, loop, carry.entering) == 1;
}

bool adds_up_apart(const Graph& graph, const LoopOp& loop, const LoopOp::Carry& carry) {
  return only_adds_up(graph, loop, carry) && !has_samples(graph, graph.type(carry.result));
}

bool is_backward_loop(const Node& node) { return std::holds_alternative<LoopOp>(node.op) && is_gradient(node.part); }

GraphBuilder beside(Graph& graph, const Node& node) {
  GraphBuilder build(graph);
  build.body = node.body;
  build.part = node.part;
  build.span = node.span;
  build.scope = node.scope;
  build.call = node.call;
  build.region = node.region;
  return build;
}

void connect_loop(Node& node) {
  const LoopOp& loop = std::get<LoopOp>(node.op);
  node.inputs.clear();
  node.results.clear();
  for (const auto& c : loop.carries) {
    node.inputs.push_back(c.initial);
    node.results.push_back(c.result);
  }
  for (const auto& s : loop.slices) node.inputs.push_back(s.stacked);
  for (const auto& c : loop.collects) node.results.push_back(c.stacked);
}

void expand_nodes(Graph& graph, const std::function<std::vector<ValueId>(GraphBuilder&, NodeId)>& expand) {
  std::map<ValueId, ValueId> replaced;
  for (uint32_t b = 0; b < graph.bodies.size(); ++b) {
    std::vector<NodeId> old;
    old.swap(graph.bodies[b].nodes);
    for (NodeId id : old) {
      GraphBuilder build = beside(graph, graph.node(id));
      build.body = BodyId{b};
      const std::vector<ValueId> results = expand(build, id);
      if (results.empty()) {
        graph.bodies[b].nodes.push_back(id);
        continue;
      }
      for (size_t i = 0; i < results.size(); ++i) replaced[graph.node(id).results[i]] = results[i];
      graph.node(id).inputs.clear();
      graph.node(id).results.clear();
    }
  }
  replace_values(graph, replaced);
}

void remove_dead(Graph& graph, std::span<const ValueId> also_needed) {
  std::vector<bool> live(graph.values.size());
  std::vector<ValueId> work;
  const auto need = [&](ValueId id) {
    if (!id || live[id.index]) return;
    live[id.index] = true;
    work.push_back(id);
  };
  for (const ValueId value : also_needed) need(value);
  for (const Metric& metric : graph.metrics) need(metric.value);
  for (const Wanted& wanted : graph.wanted) need(wanted.value);
  for (const Output& output : graph.outputs) need(output.value);
  for (const Body& body : graph.bodies)
    for (NodeId id : body.nodes)
      if (std::holds_alternative<UpdateOp>(graph.node(id).op))
        for (ValueId input : graph.node(id).inputs) need(input);
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    const Node& node = graph.node(graph.value(id).producer);
    const LoopOp* loop = std::get_if<LoopOp>(&node.op);
    if (!loop) {
      for (ValueId input : node.inputs) need(input);
      continue;
    }
    for (const auto& c : loop->carries)
      if (c.result == id || c.entering == id) need(c.result), need(c.entering), need(c.initial), need(c.leaving);
    for (const auto& s : loop->slices)
      if (s.turn == id) need(s.stacked);
    for (const auto& c : loop->collects)
      if (c.stacked == id) need(c.turn);
    need(until(graph, *loop));
  }
  for (Body& body : graph.bodies) {
    std::erase_if(body.nodes, [&](NodeId id) {
      const Node& node = graph.node(id);
      if (std::holds_alternative<UpdateOp>(node.op) || std::holds_alternative<UntilOp>(node.op) ||
          std::holds_alternative<ReadOp>(node.op))
        return false;
      return std::none_of(node.results.begin(), node.results.end(), [&](ValueId r) { return live[r.index]; });
    });
    for (NodeId id : body.nodes) {
      Node& node = graph.node(id);
      LoopOp* loop = std::get_if<LoopOp>(&node.op);
      if (!loop) continue;
      std::erase_if(loop->carries, [&](const auto& c) { return !live[c.result.index]; });
      std::erase_if(loop->slices, [&](const auto& s) { return !live[s.turn.index]; });
      std::erase_if(loop->collects, [&](const auto& c) { return !live[c.stacked.index]; });
      connect_loop(node);
    }
  }
  std::erase_if(graph.names, [&](const auto& entry) { return !live[entry.second.index]; });
}

namespace {

/// The same op of the same operands, with results of the same types (of a literal and a cast the op does not say them).
bool computes_the_same(const Graph& graph, const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs &&
         std::ranges::equal(
             a.results, b.results, {}, [&](ValueId id) { return graph.type(id); },
             [&](ValueId id) { return graph.type(id); });
}

size_t hash_of(const Node& node) {
  size_t hash = hash_of(node.op);
  for (ValueId input : node.inputs) hash = hash_with(hash, input.index);
  return hash;
}

bool is_mergeable(const Node& node) {
  return !std::holds_alternative<LoopOp>(node.op) && !std::holds_alternative<ReadOp>(node.op) &&
         !std::holds_alternative<UpdateOp>(node.op) && !node.results.empty();
}

}  // namespace

void merge_equal(Graph& graph) {
  std::map<ValueId, ValueId> replaced;
  for (Body& body : graph.bodies) {
    std::unordered_multimap<size_t, NodeId> seen;
    std::vector<NodeId> kept;
    for (NodeId id : body.nodes) {
      Node& node = graph.node(id);
      for (ValueId& input : node.inputs) input = resolve(replaced, input);
      NodeId equal;
      if (is_mergeable(node)) {
        const size_t hash = hash_of(node);
        const auto [begin, end] = seen.equal_range(hash);
        for (auto at = begin; at != end && !equal; ++at)
          if (computes_the_same(graph, graph.node(at->second), node)) equal = at->second;
        if (!equal) seen.emplace(hash, id);
      }
      if (!equal) {
        kept.push_back(id);
        continue;
      }
      // What the forward pass computes may serve backward, not the reverse; the first one stands earlier in any case.
      Node& first = graph.node(equal);
      for (size_t i = 0; i < node.results.size(); ++i) replaced[node.results[i]] = first.results[i];
      // I must not wait for W, nor R for either.
      if (is_gradient(first.part) && node.part < first.part) first.part = node.part;
    }
    body.nodes = std::move(kept);
  }
  replace_values(graph, replaced);
  verify_graph(graph, "merge_equal");
}

std::optional<double> counted(const Graph& graph, const Node& node) {
  const OpDefinition& op = definition(node.op);
  if (!op.reduction || !op.number || !graph.type(node.results[0]).dims.empty()) return {};
  return op.number(graph, node, [&](ValueId value) { return literal_number(graph, value); });
}

void fold_counts(Graph& graph, Counts which) {
  expand_nodes(graph, [which](GraphBuilder& build, NodeId id) -> std::vector<ValueId> {
    const Node node = build.graph.node(id);
    if (which == Counts::in_loops && node.body == build.graph.root()) return {};
    const std::optional<double> count = counted(build.graph, node);
    if (!count) return {};
    const ValueId number = build.literal(*count, build.graph.type(node.results[0]).element);
    std::get<LiteralOp>(build.graph.node(build.graph.value(number).producer).op).counts =
        definition(node.op).reduction(build.graph, node).dims;
    return {number};
  });
  verify_graph(graph, "fold_counts");
}

}  // namespace mesh
