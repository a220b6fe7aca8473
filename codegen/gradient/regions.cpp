#include "codegen/gradient/regions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/gradient/region_flow.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

void label(Graph& graph, BodyId body, uint32_t& regions) {
  RegionId code;  // the stretch of straight code under way
  for (const NodeId id : graph.body(body).nodes) {
    if (is_given(graph, graph.node(id)) || graph.node(id).part != Part::forward) continue;
    if (const auto* loop = std::get_if<LoopOp>(&graph.node(id).op)) {
      const BodyId inner = loop->body;
      graph.node(id).region = RegionId{regions++};
      label(graph, inner, regions);
      code = {};
      continue;
    }
    if (!code) code = RegionId{regions++};
    graph.node(id).region = code;
  }
}

void add(std::vector<ValueId>& list, ValueId value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

/// Where a value goes that nodes outside of all regions read, or a loop's next turn.
std::vector<ValueId> Region::*leaving(Part part, bool next_turn) {
  if (part == Part::forward || part == Part::recompute) return &Region::out;
  if (part == Part::input_gradient && next_turn) return &Region::d_in;
  return is_gradient(part) ? &Region::d_parameters : nullptr;
}

class Cut {
 public:
  explicit Cut(const Graph& graph) : graph_(graph), flow_(graph) {}

  std::vector<Region> run() {
    for (const NodeId id : flow_.nodes()) place(id);
    for (const NodeId id : flow_.nodes()) {
      const Node& node = graph_.node(id);
      for (const Origin& from : flow_.reads(node)) {
        if (node.region && node.part != Part::update) read(node, from);
        else if (!std::holds_alternative<LoopOp>(node.op)) leave(from, false);
      }
      if (const auto* loop = std::get_if<LoopOp>(&node.op)) leave_turn(*loop);
    }
    for_each_caller(const_cast<Graph&>(graph_), [&](ValueId& value) {  // reads alone
      if (const std::optional<Origin> from = flow_.origin(value)) leave(*from, false);
    });
    return std::move(regions_);
  }

 private:
  Region* region(RegionId id) { return id && id.index < regions_.size() ? &regions_[id.index] : nullptr; }

  void place(NodeId id) {
    const Node& node = graph_.node(id);
    if (!node.region || node.part == Part::update) return;
    while (regions_.size() <= node.region.index) {
      Region fresh;
      fresh.id = RegionId{static_cast<uint32_t>(regions_.size())};
      regions_.push_back(std::move(fresh));
    }
    Region& own = regions_[node.region.index];
    own.nodes[static_cast<size_t>(node.part)].push_back(id);
    const bool forward = node.part == Part::forward;
    if (forward && std::holds_alternative<LoopOp>(node.op)) own.loop = id;
    // A region whose forward nodes nobody needs stands where its gradients do.
    const RegionId around = node.body == graph_.root() ? RegionId{} : graph_.node(graph_.body(node.body).owner).region;
    if (around != node.region && (forward || !own.around)) own.around = around;
  }

  void read(const Node& node, const Origin& from) {
    const Crossing lists = crossing(node, from);
    for (const Crossing::List list : {lists.taken, lists.kept, lists.kept_w})
      if (list) add(regions_[node.region.index].*list, from.value);
    if (Region* maker = region(from.region); maker && lists.given) add(maker->*lists.given, from.value);
  }

  void leave(const Origin& from, bool next_turn) {
    Region* maker = region(from.region);
    if (const auto list = leaving(from.part, next_turn); maker && list) add(maker->*list, from.value);
  }

  void leave_turn(const LoopOp& loop) {
    for (const LoopOp::Carry& carry : loop.carries)
      if (const std::optional<Origin> from = flow_.origin(carry.leaving))
        leave(*from, !only_adds_up(graph_, loop, carry));
    for (const LoopOp::Collect& collect : loop.collects)
      if (const std::optional<Origin> from = flow_.origin(collect.turn); from && is_gradient(from->part))
        leave(*from, false);
  }

  const Graph& graph_;
  const Flow flow_;
  std::vector<Region> regions_;
};

}  // namespace

void label_regions(Graph& graph) {
  uint32_t regions = 0;
  label(graph, graph.root(), regions);
}

std::vector<Region> regions_of(const Graph& graph) { return Cut(graph).run(); }

std::string print_regions(const Graph& graph, const std::vector<Region>& regions) {
  const auto is_empty = [](const Region& one) {  // what it computes nobody needs
    return std::ranges::all_of(one.nodes, [](const auto& nodes) { return nodes.empty(); });
  };
  const auto count = std::ranges::count_if(regions, [&](const Region& one) { return !is_empty(one); });
  std::string text = fmt::format("{} region{}\n", count, count == 1 ? "" : "s");
  const auto name = [&](ValueId value) {
    const std::string& known = known_as(graph, value);
    const std::string shown = known.empty() ? fmt::format("%{}", value.index) : known;
    return shown + " : " + to_string(graph, graph.type(value));
  };
  for (const Region& one : regions) {
    if (is_empty(one)) continue;
    size_t depth = 1;
    for (RegionId at = one.around; at; at = regions[at.index].around) ++depth;
    const std::string indent(2 * (depth - 1), ' ');
    std::string what = "code";
    if (one.loop) what = "repeat " + graph.dim(std::get<LoopOp>(graph.node(one.loop).op).dim).name;
    text += fmt::format("{}region {}: {}, F {} R {} I {} W {}\n", indent, one.id.index, what,
                        one.of(Part::forward).size(), one.of(Part::recompute).size(),
                        one.of(Part::input_gradient).size(), one.of(Part::weight_gradient).size());
    const auto list = [&](const char* title, const std::vector<ValueId>& values) {
      if (values.empty()) return;
      std::vector<std::string> names;
      names.reserve(values.size());
      for (const ValueId value : values) names.push_back(name(value));
      text += fmt::format("{}  {:<12} {}\n", indent, title, fmt::join(names, ", "));
    };
    list("in", one.in);
    list("out", one.out);
    list("stash", one.stash);
    list("recomputed", one.recomputed);
    list("d_out", one.d_out);
    list("d_in", one.d_in);
    list("stash_w", one.stash_w);
    list("d_parameters", one.d_parameters);
  }
  return text;
}

}  // namespace mesh
