#include "codegen/generation/one_position.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/generation/horizons.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"
#include "meshrt/generation.h"

namespace mesh {
namespace {

/// An op that is not built for one position: where it stands.
struct NotBuilt {
  NodeId node;
};

/// Values are made when something needs them: of one position ("row"), or of all ("whole"). What depends on nothing
/// that is generated is whole as it was, and its rows are taken of it. A whole of what does depend is a cache.
class OnePosition {
 public:
  explicit OnePosition(const Graph& from) : from_(from), asked_(*from.generation) {
    horizons_ = horizons_of(from, asked_.input, asked_.along).of;
    for (const Horizon& horizon : horizons_)
      for (const auto& [dim, by] : horizon.upto) sequence_.insert(dim);
    to_.model = from.model;
    to_.dims = from.dims;
    to_.sample_dim = from.sample_dim;
    to_.bodies.push_back({});
    bodies_[from.root()] = to_.root();
  }

  Graph take() {
    std::vector<DimId> dims = from_.stored[asked_.input.index].type.dims;  // then that of the elements
    std::erase(dims, asked_.along);
    dims.push_back(from_.stored[asked_.input.index].type.index_of);
    const ValueId logits = build(to_.root(), asked_.span).in_order(row(asked_.logits), dims);
    for (const auto& [stored, next] : updates_) build(to_.root(), asked_.span).append(UpdateOp{stored}, {next});
    const std::string name = known_as(from_, asked_.logits).empty() ? "logits" : known_as(from_, asked_.logits);
    to_.generation = Generation{made_.at(asked_.input), asked_.along, logits, asked_.span};
    to_.outputs.push_back({name, logits, {}, asked_.span});
    return std::move(to_);
  }

 private:
  // ---- what a value is

  bool depends(ValueId id) const { return horizons_[id.index].depends(); }

  /// The dim of which a row has one position; unset where it has none of the sequence.
  DimId row_dim(ValueId id) const {
    DimId found;
    for (const DimId dim : from_.type(id).dims) {
      if (dim == asked_.along) return dim;
      if (!sequence_.contains(dim)) continue;
      if (found) throw NotBuilt{from_.value(id).producer};  // which of them is this position's?
      found = dim;
    }
    return found;
  }

  GraphBuilder build(BodyId body, Span span, std::string scope = {}) {
    GraphBuilder made(to_);
    made.body = body;
    made.span = span;
    made.scope = std::move(scope);
    return made;
  }
  GraphBuilder build_like(const Node& node) { return build(bodies_.at(node.body), node.span, node.scope); }

  // ---- stored tensors

  ValueId read(StoredId id) {
    const auto [known, fresh] = stored_.try_emplace(id);
    if (!fresh) return known->second;
    const Stored& stored = from_.stored[id.index];
    GraphBuilder at = build(to_.root(), stored.span);
    const StoredId made = at.stored(stored.kind, stored.path, stored.type, stored.initial);
    to_.stored[made.index].stacked = stored.stacked;
    made_[id] = made;
    return known->second = to_.stored[made.index].value;
  }

  ValueId position() {
    if (!position_) {
      const StoredId made =
          build(to_.root(), asked_.span).stored(StoredKind::input, meshrt::position_input, {Type::i32, {}, {}}, {});
      position_ = to_.stored[made.index].value;
    }
    return position_;
  }

  /// A state that lies in the loops around `body`, as this turn finds it.
  struct Cache {
    StoredId stored;
    std::vector<ValueId> stacks;  // from the whole to that of the innermost loop
    ValueId before;
  };

  /// The loops of the made graph around a body, outermost first.
  std::vector<NodeId> loops_around(BodyId body) const {
    std::vector<NodeId> loops;
    for (NodeId owner = to_.body(body).owner; owner; owner = to_.body(to_.node(owner).body).owner)
      loops.insert(loops.begin(), owner);
    return loops;
  }

  Cache cache(BodyId body, const std::string& path, ValueType type, Span span) {
    const std::vector<NodeId> loops = loops_around(body);
    std::vector<DimId> dims;
    for (const NodeId loop : loops) dims.push_back(std::get<LoopOp>(to_.node(loop).op).dim);
    type.dims.insert(type.dims.begin(), dims.begin(), dims.end());
    Cache made;
    made.stored = build(to_.root(), span).stored(StoredKind::cache, path, type, {});
    to_.stored[made.stored.index].stacked = loops.size();
    made.before = to_.stored[made.stored.index].value;
    for (const NodeId loop : loops) {
      type.dims.erase(type.dims.begin());
      const BodyId inside = std::get<LoopOp>(to_.node(loop).op).body;
      const ValueId turn = build(inside, span).argument(type, inside, loop, path);
      std::get<LoopOp>(to_.node(loop).op).slices.push_back({made.before, turn});
      made.before = turn;
    }
    return made;
  }

  /// Keeps a value of the body for the next position.
  void keep(const Cache& in, ValueId next) {
    ValueType type = to_.type(next);
    std::vector<NodeId> loops = loops_around(to_.value(next).body);
    for (; !loops.empty(); loops.pop_back()) {
      const NodeId loop = loops.back();
      LoopOp& op = std::get<LoopOp>(to_.node(loop).op);
      type.dims.insert(type.dims.begin(), op.dim);
      const ValueId stacked = build(to_.root(), {}).argument(type, to_.node(loop).body, loop);
      std::get<LoopOp>(to_.node(loop).op).collects.push_back({next, stacked});
      next = stacked;
    }
    updates_.emplace_back(in.stored, next);
  }

  std::string cache_path(ValueId of) {
    const std::string& name = known_as(from_, of);
    const std::string base = "generate." + (name.empty() ? "value" : name);
    const int count = ++paths_[base];
    return count == 1 ? base : fmt::format("{}_{}", base, count);
  }

  // ---- values

  static bool names(Op op, DimId dim) {
    bool found = false;
    for_each_dim(op, [&](DimId& one) { found = found || one == dim; });
    return found;
  }

  ValueId whole(ValueId id) {
    if (const auto known = wholes_.find(id); known != wholes_.end()) return known->second;
    ValueId made;
    const Node& node = from_.node(from_.value(id).producer);
    if (const auto* of = std::get_if<ReadOp>(&node.op)) made = read(of->stored);
    else if (!depends(id)) made = copied(id, {}, [&](ValueId operand) { return whole(operand); });
    else if (!has_positions(id)) made = row(id);
    else if (const DimId dim = kept_along(id)) made = cached(id, dim);
    else made = all_positions(id);
    return wholes_[id] = made;
  }

  bool has_positions(ValueId id) const {
    return std::ranges::any_of(from_.type(id).dims, [&](DimId dim) { return sequence_.contains(dim); });
  }

  /// The dim along which a position's element is known at that position, and then for good; unset where it has several,
  /// or sees further ahead, or where its op works along the dim: what that gives is computed anew of all positions.
  DimId kept_along(ValueId id) const {
    const Node& node = from_.node(from_.value(id).producer);
    DimId found;
    for (const DimId dim : from_.type(id).dims) {
      if (!sequence_.contains(dim)) continue;
      if (found || sees_ahead(id, dim) || from_.dim(dim).size != from_.dim(asked_.along).size) return {};
      found = dim;
    }
    const bool works = !is_rename(node.op) && !std::holds_alternative<LoopOp>(node.op) && names(node.op, found);
    return works ? DimId{} : found;
  }

  bool sees_ahead(ValueId id, DimId dim) const {
    const auto ahead = horizons_[id.index].upto.find(dim);
    return ahead != horizons_[id.index].upto.end() && ahead->second > 0;
  }

  /// The op once more, of all positions of its operands.
  ValueId all_positions(ValueId id) {
    const NodeId producer = from_.value(id).producer;
    if (std::holds_alternative<LoopOp>(from_.node(producer).op)) throw NotBuilt{producer};
    std::vector<ValueId> operands;
    for (const ValueId input : from_.node(producer).inputs) operands.push_back(whole(input));
    const NodeId made = again(producer, from_.node(producer).op, operands);
    return result_of(made, producer, id);
  }

  /// All positions up to this one: those before it as they were kept.
  ValueId cached(ValueId id, DimId dim) {
    const ValueId now = row(id);
    const BodyId body = to_.value(now).body;
    const Node& node = from_.node(from_.value(id).producer);
    const Cache kept = cache(body, cache_path(id), from_.type(id), node.span);
    GraphBuilder at = build(body, node.span, node.scope);
    const ValueId here = at.map(MapFunction::equal, {at.position(dim), position()});
    const ValueId next = at.map(MapFunction::where, {here, now, kept.before});
    keep(kept, next);
    return next;
  }

  /// Of this position; of what has no position, as it is.
  ValueId row(ValueId id) {
    if (const auto known = rows_.find(id); known != rows_.end()) return known->second;
    const Node& node = from_.node(from_.value(id).producer);
    const DimId dim = row_dim(id);
    ValueId made;
    if (std::holds_alternative<LoopOp>(node.op)) {
      loop(from_.value(id).producer);
      return rows_.at(id);
    }
    if (std::holds_alternative<ReadOp>(node.op)) made = taken(whole(id), dim, node);
    else if (dim && sees_ahead(id, dim)) made = taken(all_positions(id), dim, node);
    else made = copied(id, dim, [&](ValueId operand) { return at_dim(operand, dim); });
    return rows_[id] = made;
  }

  /// An operand of a row along `dim`.
  ValueId at_dim(ValueId id, DimId dim) {
    if (!has(from_.type(id).dims, dim)) return whole(id);
    if (depends(id)) {
      if (row_dim(id) != dim) throw NotBuilt{from_.value(id).producer};
      return row(id);
    }
    if (const auto known = taken_.find({id, dim}); known != taken_.end()) return known->second;
    const Node& node = from_.node(from_.value(id).producer);
    const ValueId made = definition(node.op).names_dims_alike && node.results.size() == 1 && !names(node.op, dim)
                             ? copied(id, dim, [&](ValueId operand) { return at_dim(operand, dim); })
                             : taken(whole(id), dim, node);
    return taken_[{id, dim}] = made;
  }

  ValueId taken(ValueId table, DimId dim, const Node& of) {
    GraphBuilder at = build(to_.value(table).body, of.span, of.scope);
    return at.value(TakeOp{dim}, {table, at.cast(position(), Type::i32, dim)});
  }

  /// The op once more; `without` is no dim of its result any more.
  template <class Operand>
  ValueId copied(ValueId id, DimId without, Operand operand) {
    const NodeId producer = from_.value(id).producer;
    const Node& node = from_.node(producer);
    if (std::holds_alternative<LoopOp>(node.op)) {
      loop(producer);
      return wholes_.at(id);
    }
    Op op = node.op;
    DimId source = without;  // what the dim is called in the operand
    if (is_rename(op)) {
      RenameOp& rename = std::get<RenameOp>(op);
      for (size_t i = 0; i < rename.from.size(); ++i) {
        if (!without || rename.to[i] != without) continue;
        source = rename.from[i];
        rename.from.erase(rename.from.begin() + static_cast<std::ptrdiff_t>(i));
        rename.to.erase(rename.to.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
      if (source != without && rename.from.empty()) return row(node.inputs[0]);
    }
    if (without && (names(op, without) || names(op, source))) return taken(all_positions(id), without, node);
    std::vector<ValueId> operands;
    for (const ValueId input : node.inputs)
      operands.push_back(source == without ? operand(input) : at_dim(input, source));
    const NodeId made = again(producer, op, operands);
    for (const ValueId other : node.results)
      if (other != id) (without || depends(other) ? rows_ : wholes_)[other] = result_of(made, producer, other);
    return result_of(made, producer, id);
  }

  /// A node with other operands, called as it is.
  NodeId again(NodeId producer, const Op& op, const std::vector<ValueId>& operands) {
    const Node& node = from_.node(producer);
    GraphBuilder at = build_like(node);
    const NodeId made = at.append(op, operands);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = to_.node(made).results[i];
      const Value& original = from_.value(node.results[i]);
      to_.value(result).type.element = original.type.element;  // of a literal and a cast the op does not say them
      to_.value(result).type.index_of = original.type.index_of;
      to_.value(result).name = original.name;
      to_.value(result).label = original.label;
    }
    return made;
  }
  ValueId result_of(NodeId made, NodeId producer, ValueId id) const {
    const std::vector<ValueId>& results = from_.node(producer).results;
    return to_.node(made).results[static_cast<size_t>(std::ranges::find(results, id) - results.begin())];
  }

  // ---- loops

  ValueId natural(ValueId id) { return depends(id) ? row(id) : whole(id); }
  void set(ValueId id, ValueId made) { (depends(id) ? rows_ : wholes_)[id] = made; }

  ValueType natural_type(ValueId id) const {
    ValueType type = from_.type(id);
    if (const DimId dim = depends(id) ? row_dim(id) : DimId{}) std::erase(type.dims, dim);
    return type;
  }

  void loop(NodeId id) {
    const LoopOp& from = std::get<LoopOp>(from_.node(id).op);
    const auto along = [&](ValueId value) { return horizons_[value.index].upto.contains(from.dim); };
    const bool sequence = std::ranges::any_of(
        from_.body(from.body).nodes, [&](NodeId node) { return std::ranges::any_of(from_.node(node).results, along); });
    sequence ? one_turn(id, from) : every_turn(id, from);
  }

  /// A loop along the sequence: this position's turn. What it carries is kept.
  void one_turn(NodeId id, const LoopOp& from) {
    if (until(from_, from) || from.reverse) throw NotBuilt{id};
    const Node& node = from_.node(id);
    bodies_[from.body] = bodies_.at(node.body);
    if (from.index) rows_[from.index] = wholes_[from.index] = position();
    for (const LoopOp::Slice& slice : from.slices)
      set(slice.turn, depends(slice.turn) ? row(slice.stacked) : at_dim(slice.stacked, from.dim));
    std::vector<Cache> kept;
    for (const LoopOp::Carry& carry : from.carries) {
      const ValueId initial = natural(carry.initial);
      const BodyId body = bodies_.at(node.body);
      kept.push_back(cache(body, cache_path(carry.entering), natural_type(carry.entering), node.span));
      GraphBuilder at = build_like(node);
      const ValueId first = at.map(MapFunction::equal, {position(), at.literal(0, Type::i32)});
      const ValueId entering = at.map(MapFunction::where, {first, initial, kept.back().before});
      to_.value(entering).name = from_.value(carry.entering).name;
      rows_[carry.entering] = wholes_[carry.entering] = entering;
    }
    for (size_t i = 0; i < from.carries.size(); ++i) {
      const ValueId leaving = natural(from.carries[i].leaving);
      keep(kept[i], leaving);
      set(from.carries[i].result, leaving);
    }
    for (const LoopOp::Collect& collect : from.collects) set(collect.stacked, natural(collect.turn));
  }

  /// Any other loop makes all its turns.
  void every_turn(NodeId id, const LoopOp& from) {
    const Node& node = from_.node(id);
    const BodyId outer = bodies_.at(node.body);
    const NodeId made{static_cast<uint32_t>(to_.nodes.size())};
    to_.nodes.push_back(
        {LoopOp{from.dim, {}, from.reverse, {}, {}, {}, {}}, {}, {}, outer, Part::forward, node.span, node.scope, {}});
    GraphBuilder at = build(outer, node.span, node.scope);
    const BodyId body = at.new_body(made);
    std::get<LoopOp>(to_.node(made).op).body = body;
    bodies_[from.body] = body;
    const auto argument = [&](ValueId of) {
      const ValueId value = at.argument(natural_type(of), body, made, from_.value(of).name);
      set(of, value);
      return value;
    };
    std::vector<LoopOp::Carry> carries;
    std::vector<LoopOp::Slice> slices;
    for (const LoopOp::Carry& carry : from.carries) {
      // What enters depends on all that may: a carry that begins free is this position's all the same.
      const ValueId initial = depends(carry.entering) ? at_dim_of(carry.initial, carry.entering) : whole(carry.initial);
      carries.push_back({initial, argument(carry.entering), {}, {}});
    }
    for (const LoopOp::Slice& slice : from.slices) {
      const ValueId stacked = natural(slice.stacked);
      slices.push_back({stacked, argument(slice.turn)});
    }
    ValueId index;
    if (from.index) index = argument(from.index);
    std::vector<std::pair<ValueId, ValueId>> collects;
    for (size_t i = 0; i < carries.size(); ++i)
      carries[i].leaving = depends(from.carries[i].entering)
                               ? at_dim_of(from.carries[i].leaving, from.carries[i].entering)
                               : whole(from.carries[i].leaving);
    for (const LoopOp::Collect& collect : from.collects) collects.emplace_back(natural(collect.turn), collect.stacked);
    if (const ValueId done = until(from_, from)) build(body, node.span).append(UntilOp{}, {natural(done)});
    LoopOp& op = std::get<LoopOp>(to_.node(made).op);
    op.slices.insert(op.slices.begin(), slices.begin(), slices.end());
    op.index = index;
    for (size_t i = 0; i < carries.size(); ++i) {
      const ValueId result = from.carries[i].result;
      carries[i].result = at.argument(to_.type(carries[i].leaving), outer, made, from_.value(result).name);
      set(result, carries[i].result);
    }
    std::get<LoopOp>(to_.node(made).op).carries = carries;
    std::vector<LoopOp::Collect> made_collects;
    for (const auto& [turn, stacked] : collects) {
      ValueType type = to_.type(turn);
      type.dims.insert(type.dims.begin(), from.dim);
      const ValueId value = at.argument(type, outer, made, from_.value(stacked).name);
      set(stacked, value);
      made_collects.push_back({turn, value});
    }
    LoopOp& whole_op = std::get<LoopOp>(to_.node(made).op);
    whole_op.collects.insert(whole_op.collects.begin(), made_collects.begin(), made_collects.end());
    connect_loop(to_.node(made));
    to_.body(outer).nodes.push_back(made);
  }

  /// A value in the form of another that it turns into.
  ValueId at_dim_of(ValueId id, ValueId like) {
    const DimId dim = row_dim(like);
    return dim ? at_dim(id, dim) : natural(id);
  }

  const Graph& from_;
  const Generation& asked_;
  std::vector<Horizon> horizons_;
  std::set<DimId> sequence_;  // dims along which something that is generated lies
  Graph to_;
  ValueId position_;
  std::map<BodyId, BodyId> bodies_;
  std::map<StoredId, ValueId> stored_;
  std::map<StoredId, StoredId> made_;
  std::map<ValueId, ValueId> rows_, wholes_;
  std::map<std::pair<ValueId, DimId>, ValueId> taken_;
  std::vector<std::pair<StoredId, ValueId>> updates_;
  std::map<std::string, int> paths_;
};

}  // namespace

std::optional<Graph> at_one_position(const Graph& model, DiagnosticSink& sink) {
  Graph live = model;
  live.objective.reset();
  live.metrics.clear();
  live.outputs.clear();
  live.wanted = {{"", live.generation->logits}};
  remove_dead(live);
  try {
    Graph made = OnePosition(live).take();
    verify_graph(made, "at_one_position");
    return made;
  } catch (const NotBuilt& at) {
    const Node& node = live.node(at.node);
    sink.error("E0901", node.span, fmt::format("`{}` along what is generated is not built yet", op_text(live, node.op)))
        .here("this version cannot take it position by position")
        .label(live.generation->span, "asked for here");
    return std::nullopt;
  }
}

}  // namespace mesh
