#include <fmt/format.h>

#include <algorithm>

#include "codegen/gradient/region_flow.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

bool has(const std::vector<ValueId>& list, ValueId value) { return std::ranges::find(list, value) != list.end(); }

class RegionVerifier {
 public:
  RegionVerifier(const Graph& graph, const std::vector<Region>& regions,
                 const std::function<bool(const LoopOp&)>& divided)
      : graph_(graph), flow_(graph), regions_(regions), divided_(divided) {}

  std::vector<std::string> run() {
    for (const NodeId id : flow_.nodes()) {
      const Node& node = graph_.node(id);
      if (node.part == Part::update || (!node.region && !is_gradient(node.part) && node.part != Part::recompute))
        continue;
      if (!node.region) {
        if (!flow_.reads(node).empty()) say(node, "belongs to no region");
        continue;
      }
      if (!region(node.region)) {
        say(node, "belongs to a region that there is not");
        continue;
      }
      for (const Origin& from : flow_.reads(node)) read(node, from);
      const auto* loop = std::get_if<LoopOp>(&node.op);
      if (loop && node.part == Part::recompute && divided_(*loop)) begin_as_forward(node, *loop);
    }
    for (const Region& one : regions_) made(one);
    return std::move(messages_);
  }

 private:
  const Region* region(RegionId id) const { return id && id.index < regions_.size() ? &regions_[id.index] : nullptr; }

  void say(const Node& node, const std::string& what) {
    const std::string result = node.results.empty() ? "" : " of " + value_name(graph_, node.results[0]);
    messages_.push_back(fmt::format("{}{} ({}, region {}) {}", op_text(graph_, node.op), result, name_of(node.part),
                                    node.region ? std::to_string(node.region.index) : "none", what));
  }

  bool stands_within(RegionId inner, RegionId outer) const {
    for (const Region* at = region(inner); at; at = region(at->around))
      if (at->id == outer) return true;
    return false;
  }

  void read(const Node& node, const Origin& from) {
    const std::string what = value_name(graph_, from.value);
    const Crossing lists = crossing(node, from);
    if (!lists.allowed) return say(node, fmt::format("reads {} of {}", what, name_of(from.part)));
    for (const auto& [list, name] : {std::pair{lists.taken, "what it takes of others"},
                                     {lists.kept, "what is kept for it"},
                                     {lists.kept_w, "what is kept for W"}})
      if (list && !has(regions_[node.region.index].*list, from.value))
        say(node, fmt::format("reads {}, which is not in {}", what, name));
    const Region* maker = region(from.region);
    if (maker && lists.given && !has(maker->*lists.given, from.value))
      say(node, fmt::format("reads {}, which region {} does not give", what, maker->id.index));
    if (!maker || maker->id == node.region || stands_within(node.region, maker->id)) return;
    const bool earlier = maker->id < node.region;
    if (node.part == Part::forward && !earlier) say(node, fmt::format("reads {} of a later region", what));
    if (node.part == Part::input_gradient && from.part == Part::input_gradient && earlier)
      say(node, fmt::format("reads the gradient {} of an earlier region", what));
  }

  /// Each stage adds up its own terms of a sum, and needs nothing of it from those before.
  void begin_as_forward(const Node& node, const LoopOp& again) {
    const Region& own = regions_[node.region.index];
    const auto is_carried = [&](ValueId initial) {
      if (!own.loop) return false;
      const auto& carries = std::get<LoopOp>(graph_.node(own.loop).op).carries;
      return std::ranges::find(carries, initial, &LoopOp::Carry::initial) != carries.end();
    };
    for (const LoopOp::Carry& carry : again.carries)
      if (!only_adds_up(graph_, again, carry) && !is_carried(carry.initial))
        say(node, fmt::format("begins with {}, which F does not hand on", value_name(graph_, carry.initial)));
  }

  /// Lists have what their functions make or take.
  void made(const Region& one) {
    const auto check = [&](const std::vector<ValueId>& list, const char* name, auto&& good) {
      for (const ValueId value : list) {
        const std::optional<Origin> from = flow_.origin(value);
        if (!from || !good(*from, from->region && from->region == one.id))
          messages_.push_back(fmt::format("region {} has {} in its {}", one.id.index, value_name(graph_, value), name));
      }
    };
    const auto part = [](Part wanted, bool own) {
      return [=](const Origin& from, bool is_own) { return from.part == wanted && is_own == own; };
    };
    const auto computed = [](bool own) {
      return [=](const Origin& from, bool is_own) { return from.part <= Part::recompute && is_own == own; };
    };
    check(one.in, "in", computed(false));
    check(one.out, "out", computed(true));
    check(one.stash, "stash", [](const Origin& from, bool) { return from.part == Part::forward; });
    check(one.recomputed, "recomputed", [](const Origin& from, bool) { return from.part == Part::recompute; });
    check(one.d_out, "d_out", part(Part::input_gradient, false));
    check(one.d_in, "d_in", part(Part::input_gradient, true));
    check(one.stash_w, "stash_w",
          [](const Origin& from, bool own) { return !(own && from.part == Part::weight_gradient); });
    check(one.d_parameters, "d_parameters", [](const Origin& from, bool own) { return own && is_gradient(from.part); });
  }

  const Graph& graph_;
  const Flow flow_;
  const std::vector<Region>& regions_;
  const std::function<bool(const LoopOp&)>& divided_;
  std::vector<std::string> messages_;
};

}  // namespace

std::vector<std::string> verify_regions(const Graph& graph, const std::vector<Region>& regions,
                                        const std::function<bool(const LoopOp&)>& divided) {
  return RegionVerifier(graph, regions, divided).run();
}

}  // namespace mesh
