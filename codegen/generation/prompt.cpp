#include "codegen/generation/prompt.h"

#include <algorithm>

#include "codegen/generation/caches.h"
#include "codegen/generation/own_positions.h"
#include "codegen/generation/rings.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"
#include "meshrt/generation.h"

namespace mesh {

namespace {

/// A model as it is written, that leaves caches filled.
class Filling {
 public:
  Filling(const Graph& model, const OnePosition& position)
      : graph_(model), asked_(*model.generation), position_(position) {
    graph_.wanted.clear();
    graph_.generation.reset();
    graph_.dims = position.graph.dims;
  }

  /// False for a cache that does not hold the same there.
  bool fill(const Kept& kept) {
    ValueId value = kept.what == Kept::What::leaving ? at_position(kept) : kept.of;
    if (kept.ring) value = in_ring(value, kept);
    const BodyId body = graph_.value(value).body;
    const ValueType type = graph_.type(value);
    if (!std::ranges::is_permutation(type.dims, kept.type.dims)) return false;
    const StoredId stored = caches_.declare(body, kept.path, kept.type, kept.span);
    const auto same = [&](const Stored& other) { return other.path == kept.path; };
    if (std::ranges::find_if(position_.graph.stored, same)->type != graph_.stored[stored.index].type) return false;
    caches_.keep(stored, value);
    return true;
  }

  void answer() {
    const ValueType token = graph_.stored[asked_.input.index].type;
    const DimId elements = token.index_of;
    const ValueId next = input(meshrt::next_input, token);
    GraphBuilder at = build(graph_.root());
    const ValueId logits = asked_.logits;
    const ValueId all = at.value(LogSumExpOp{{elements}}, {logits});
    const ValueId is_next = at.map(MapFunction::equal, {next, at.position(elements)});
    const ValueId zero = at.literal(0, graph_.type(logits).element);
    const DimId dims[] = {elements};
    const ValueId picked = at.reduce(Reduce::sum, at.map(MapFunction::where, {is_next, logits, zero}), dims);
    Dims of_last = filtered(token.dims, [&](DimId dim) { return dim != asked_.along; });
    of_last.push_back(elements);
    output("logits", at.in_order(taken(logits, asked_.along), of_last));
    output("logprob", at.in_order(at.subtract(picked, all), token.dims));
    output("likeliest", at.in_order(at.value(ArgReduceOp{true, elements}, {logits}), token.dims));
  }

  Graph take(const char* name) {
    caches_.update(asked_.span);
    remove_dead(graph_);
    drop_unread();
    verify_graph(graph_, name);
    return std::move(graph_);
  }

 private:
  GraphBuilder build(BodyId body) {
    GraphBuilder made(graph_);
    made.body = body;
    made.span = asked_.span;
    return made;
  }
  ValueId input(const char* path, ValueType type) {
    const StoredId made = build(graph_.root()).stored(StoredKind::input, path, std::move(type), {});
    return graph_.stored[made.index].value;
  }
  void output(const char* name, ValueId value) { graph_.outputs.push_back({name, value, {}, asked_.span}); }

  /// The position that is asked for.
  ValueId asked_position() {
    if (!index_) index_ = input(meshrt::position_input, position_type(position_.sequences));
    return index_;
  }

  /// What `make` makes of a value, in its body: where that has a condition that ends it, before the condition.
  template <class Make>
  ValueId made_of(ValueId value, Make make) {
    asked_position();
    const BodyId body = graph_.value(value).body;
    std::vector<NodeId>& nodes = graph_.body(body).nodes;
    const bool ends = !nodes.empty() && std::holds_alternative<UntilOp>(graph_.node(nodes.back()).op);
    const NodeId until = ends ? nodes.back() : NodeId{};
    if (ends) nodes.pop_back();
    GraphBuilder at = build(body);
    const ValueId made = make(at);
    if (ends) graph_.body(body).nodes.push_back(until);
    return made;
  }

  /// The element at the position.
  ValueId taken(ValueId whole, DimId dim) {
    return made_of(whole, [&](GraphBuilder& at) { return element_at(at, whole, dim, asked_position()); });
  }

  /// The last elements up to the position, each in its slot. Slots that no position has come to have any.
  ValueId in_ring(ValueId whole, const Kept& kept) {
    const auto [of, slots] = *kept.ring;
    return made_of(whole, [&, of = of, slots = slots](GraphBuilder& at) {
      const ValueId there = positions_in_ring(at, asked_position(), slots);
      const ValueId index = at.map(MapFunction::maximum, {there, at.literal(0, Type::i32)});
      return at.in_order(at.value(TakeOp{of}, {whole, at.cast(index, Type::i32, of)}), kept.type.dims);
    });
  }

  /// What the loop's turn of that position leaves.
  ValueId at_position(const Kept& kept) {
    ValueType type = graph_.type(kept.of);
    const DimId dim = std::get<LoopOp>(graph_.node(kept.loop).op).dim;
    type.dims.insert(type.dims.begin(), dim);
    const ValueId stacked = build(graph_.root()).argument(type, graph_.node(kept.loop).body, kept.loop);
    std::get<LoopOp>(graph_.node(kept.loop).op).collects.push_back({kept.of, stacked});
    return taken(stacked, dim);
  }

  /// Tensors that are neither read nor written are none of this entry's.
  void drop_unread() {
    std::vector<bool> used(graph_.stored.size());
    const auto use = [&](ValueId value) {
      const Op& op = graph_.node(graph_.value(value).producer).op;
      if (const auto* read = std::get_if<ReadOp>(&op)) used[read->stored.index] = true;
    };
    for (const Output& output : graph_.outputs) use(output.value);
    for (const Body& body : graph_.bodies)
      for (const NodeId id : body.nodes) {
        for_each_read(graph_.node(id), [&](ValueId& value) { use(value); });
        if (const auto* update = std::get_if<UpdateOp>(&graph_.node(id).op)) used[update->stored.index] = true;
      }
    std::erase_if(graph_.body(graph_.root()).nodes, [&](NodeId id) {
      const auto* read = std::get_if<ReadOp>(&graph_.node(id).op);
      return read != nullptr && !used[read->stored.index];
    });
    std::vector<StoredId> now(graph_.stored.size());
    std::vector<Stored> kept;
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      now[i] = {static_cast<uint32_t>(kept.size())};
      kept.push_back(std::move(graph_.stored[i]));
    }
    for (Node& node : graph_.nodes) {
      if (auto* read = std::get_if<ReadOp>(&node.op)) read->stored = now[read->stored.index];
      if (auto* update = std::get_if<UpdateOp>(&node.op)) update->stored = now[update->stored.index];
    }
    graph_.stored = std::move(kept);
  }

  Graph graph_;
  const Generation& asked_;
  const OnePosition& position_;
  Caches caches_{graph_};
  ValueId index_;
};

}  // namespace

std::optional<Graph> at_all_positions(const Graph& model, const OnePosition& position) {
  Filling filling(model, position);
  for (const Kept& kept : position.kept)
    if (!filling.fill(kept)) return std::nullopt;
  filling.answer();
  return filling.take("at_all_positions");
}

std::optional<Graph> at_the_beginning(const Graph& model, const OnePosition& position) {
  Filling filling(model, position);
  bool any = false;
  for (const Kept& kept : position.kept)
    if (kept.what == Kept::What::given) any = filling.fill(kept) || any;
  return any ? std::optional(filling.take("at_the_beginning")) : std::nullopt;
}

}  // namespace mesh
