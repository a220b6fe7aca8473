#include "codegen/rewrites/narrow_caches.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

/// Who reads each value.
using Readers = std::map<ValueId, std::vector<NodeId>>;

Readers readers_of(const Graph& graph) {
  Readers readers;
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes)
      for_each_read(graph.node(id), [&](ValueId value) { readers[value].push_back(id); });
  return readers;
}

bool casts_to(const Graph& graph, const Node& node, Type type) {
  return map_function(node.op) == MapFunction::cast && graph.type(node.results[0]).element == type;
}

/// What has a cache's numbers, these alone or others beside them, from reader to reader.
class Spread {
 public:
  Spread(const Graph& graph, const Readers& readers, StoredId cache, Type type)
      : graph_(graph), readers_(readers), cache_(cache), type_(type) {}

  /// False where somebody reads more of them than their rounding: then `values` is not whole.
  bool reach_all() {
    reach(graph_.stored[cache_.index].value);
    while (!next_.empty()) {
      const ValueId value = next_.back();
      next_.pop_back();
      const auto read = readers_.find(value);
      if (read == readers_.end()) continue;
      if (!std::ranges::all_of(read->second, [&](NodeId id) { return may_read(graph_.node(id), value); })) return false;
    }
    return true;
  }

  std::set<ValueId> values;

 private:
  void reach(ValueId value) {
    if (values.insert(value).second) next_.push_back(value);
  }

  bool may_read(const Node& node, ValueId value) {
    if (const auto* loop = std::get_if<LoopOp>(&node.op)) return may_enter(*loop, value);
    if (casts_to(graph_, node, type_)) return true;
    if (const auto* update = std::get_if<UpdateOp>(&node.op)) return update->stored == cache_;
    const bool orders = casts_to(graph_, node, graph_.type(value).element);
    const OpDefinition& op = definition(node.op);
    const bool looks_up = op.effort(node.op) == Effort::lookup && op.narrow == Narrow::handed_on;
    if (!orders && !looks_up && !is_view(node.op) && map_function(node.op) != MapFunction::where) return false;
    reach(node.results[0]);
    return true;
  }

  /// A loop may read parts of it in its turns, and stack what they make. What it carries is computed with.
  bool may_enter(const LoopOp& loop, ValueId value) {
    for (const LoopOp::Carry& carry : loop.carries)
      if (carry.initial == value || carry.leaving == value) return false;
    for (const LoopOp::Slice& slice : loop.slices)
      if (slice.stacked == value) reach(slice.turn);
    for (const LoopOp::Collect& collect : loop.collects)
      if (collect.turn == value) reach(collect.stacked);
    return true;
  }

  const Graph& graph_;
  const Readers& readers_;
  const StoredId cache_;
  const Type type_;
  std::vector<ValueId> next_;
};

class CacheNarrower {
 public:
  CacheNarrower(Graph& graph, Type type) : graph_(graph), type_(type) {}

  void run(const std::set<std::string>& paths) {
    const Readers readers = readers_of(graph_);
    for (uint32_t i = 0; i < graph_.stored.size(); ++i) {
      Stored& stored = graph_.stored[i];
      if (stored.kind != StoredKind::cache || !paths.contains(stored.path)) continue;
      caches_.insert(StoredId{i});
      stored.type.element = type_;
      Spread spread(graph_, readers, StoredId{i}, type_);
      if (!spread.reach_all()) internal_error("an entry computes with the narrow cache " + stored.path);
      narrow_.merge(spread.values);
    }
    for (const ValueId value : narrow_) graph_.value(value).type.element = type_;
    expand_nodes(graph_, [&](GraphBuilder& build, NodeId id) { return expand(build, id); });
    round_updates();
  }

 private:
  /// Who rounds what is narrow by now reads it as it is; who chooses between that and another value rounds the other.
  std::vector<ValueId> expand(GraphBuilder& build, NodeId id) {
    const Node node = graph_.node(id);
    if (node.results.size() != 1) return {};
    const bool is_narrow = narrow_.contains(node.results[0]);
    if (is_narrow && map_function(node.op) == MapFunction::where)
      for (const size_t side : {1, 2}) {
        const ValueId rounded = build.narrow(node.inputs[side], type_);
        graph_.node(id).inputs[side] = rounded;
      }
    const bool rounds = !is_narrow && casts_to(graph_, node, type_) && narrow_.contains(node.inputs[0]);
    if (rounds && graph_.type(node.inputs[0]).dims == graph_.type(node.results[0]).dims) return {node.inputs[0]};
    return {};
  }

  /// What fills a cache in one pass is rounded where it is made. Updates stand behind all else.
  void round_updates() {
    std::vector<NodeId>& nodes = graph_.body(graph_.root()).nodes;
    const auto fills = [&](NodeId id) {
      const auto* update = std::get_if<UpdateOp>(&graph_.node(id).op);
      return update != nullptr && caches_.contains(update->stored);
    };
    std::vector<NodeId> updates;
    const Readers readers = readers_of(graph_);
    std::ranges::copy_if(nodes, std::back_inserter(updates), fills);
    std::erase_if(nodes, fills);
    for (const NodeId id : updates) {
      const ValueId next = rounded(readers, graph_.node(id).inputs[0], id);
      graph_.node(id).inputs[0] = next;
    }
    std::ranges::copy(updates, std::back_inserter(graph_.body(graph_.root()).nodes));
  }

  bool is_given(ValueId value) const { return std::ranges::count(graph_.outputs, value, &Output::value) > 0; }

  /// Of what a loop stacks for this reader alone, each turn's part.
  ValueId rounded(const Readers& readers, ValueId value, NodeId reader) {
    if (graph_.type(value).element == type_) return value;
    const NodeId made = graph_.value(value).producer;
    const auto* loop = std::get_if<LoopOp>(&graph_.node(made).op);
    if (loop == nullptr || is_given(value) || readers.at(value) != std::vector{reader}) return rounded_at_end(value);
    const auto stacks = std::ranges::find(loop->collects, value, &LoopOp::Collect::stacked);
    if (stacks == loop->collects.end()) return rounded_at_end(value);
    const auto place = static_cast<size_t>(stacks - loop->collects.begin());
    const ValueId turn = rounded(readers, stacks->turn, made);
    std::get<LoopOp>(graph_.node(made).op).collects[place].turn = turn;
    connect_loop(graph_.node(made));
    graph_.value(value).type.element = type_;
    return value;
  }

  /// At the end of its body, but before what ends the loop.
  ValueId rounded_at_end(ValueId value) {
    const BodyId body = graph_.value(value).body;
    GraphBuilder build = beside(graph_, graph_.node(graph_.value(value).producer));
    build.body = body;
    const ValueId made = build.narrow(value, type_);
    std::vector<NodeId>& nodes = graph_.body(body).nodes;
    if (const auto last = std::ssize(nodes) - 2;
        last >= 0 && std::holds_alternative<UntilOp>(graph_.node(nodes[static_cast<size_t>(last)]).op))
      std::rotate(nodes.begin() + last, nodes.begin() + last + 1, nodes.end());
    return made;
  }

  Graph& graph_;
  const Type type_;
  std::set<StoredId> caches_;
  std::set<ValueId> narrow_;
};

}  // namespace

std::set<std::string> caches_read_narrow(const Graph& graph, Type type) {
  const Readers readers = readers_of(graph);
  std::set<std::string> paths;
  for (uint32_t i = 0; i < graph.stored.size(); ++i) {
    const Stored& stored = graph.stored[i];
    if (stored.kind != StoredKind::cache || stored.type.element != computed_in(type)) continue;
    Spread spread(graph, readers, StoredId{i}, type);
    const bool read_narrow = spread.reach_all();
    const auto gives = [&](const Output& output) { return spread.values.contains(output.value); };
    if (read_narrow && std::ranges::none_of(graph.outputs, gives)) paths.insert(stored.path);
  }
  return paths;
}

void narrow_caches(Graph& graph, const std::set<std::string>& paths, Type type) {
  CacheNarrower(graph, type).run(paths);
  verify_graph(graph, "narrow_caches");
}

}  // namespace mesh
