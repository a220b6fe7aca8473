#include "codegen/generation/one_position.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/generation/horizons.h"
#include "codegen/generation/one_position_maker.h"
#include "codegen/generation/own_positions.h"
#include "codegen/generation/rings.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/verify_graph.h"
#include "meshrt/generation.h"

namespace mesh {

OnePositionMaker::OnePositionMaker(const Graph& from, DimId sequences)
    : from_(from), asked_(*from.generation), sequences_(sequences) {
  horizons_ = horizons_of(from, asked_.input, asked_.along).of;
  for (const Horizon& horizon : horizons_)
    for (const auto& [dim, by] : horizon.upto) sequence_.insert(dim);
  find_given();
  to_.model = from.model;
  to_.dims = from.dims;
  to_.sample_dim = from.sample_dim;
  to_.bodies.push_back({});
  bodies_[from.root()] = to_.root();
}

OnePosition OnePositionMaker::take() {
  std::vector<DimId> dims = from_.stored[asked_.input.index].type.dims;  // then that of the elements
  std::erase(dims, asked_.along);
  dims.push_back(from_.stored[asked_.input.index].type.index_of);
  const ValueId logits = build(to_.root(), asked_.span).in_order(row(asked_.logits), dims);
  caches_.update(asked_.span);
  const std::string name = known_as(from_, asked_.logits).empty() ? "logits" : known_as(from_, asked_.logits);
  to_.generation = Generation{made_.at(asked_.input), asked_.along, logits, asked_.span};
  to_.outputs.push_back({name, logits, {}, asked_.span});
  return {std::move(to_), std::move(kept_), sequences_};
}

DimId OnePositionMaker::row_dim(ValueId id) const {
  DimId found;
  for (const DimId dim : from_.type(id).dims) {
    if (dim == asked_.along) return dim;
    if (!sequence_.contains(dim)) continue;
    if (found) throw NotBuilt{from_.value(id).producer};  // which of them is this position's?
    found = dim;
  }
  return found;
}

bool OnePositionMaker::has_positions(ValueId id) const {
  return std::ranges::any_of(from_.type(id).dims, [&](DimId dim) { return sequence_.contains(dim); });
}

DimId OnePositionMaker::kept_along(ValueId id) const {
  const Node& node = from_.node(from_.value(id).producer);
  DimId found;
  for (const DimId dim : from_.type(id).dims) {
    if (!sequence_.contains(dim)) continue;
    if (found || sees_ahead(id, dim) || from_.dim(dim).size != from_.dim(asked_.along).size) return {};
    found = dim;
  }
  const bool works = !is_rename(node.op) && !std::holds_alternative<LoopOp>(node.op) && names_dim(node.op, found);
  return works ? DimId{} : found;
}

bool OnePositionMaker::sees_ahead(ValueId id, DimId dim) const {
  const auto ahead = horizons_[id.index].upto.find(dim);
  return ahead != horizons_[id.index].upto.end() && ahead->second > 0;
}

// ---- writing

GraphBuilder OnePositionMaker::build(BodyId body, Span span) {
  GraphBuilder made(to_);
  made.body = body;
  made.span = span;
  return made;
}

GraphBuilder OnePositionMaker::build(BodyId body, const Node& like) {
  GraphBuilder made = build(body, like.span);
  made.scope = like.scope;
  made.call = like.call;
  return made;
}

std::string OnePositionMaker::cache_path(ValueId of) {
  const std::string& name = known_as(from_, of);
  const std::string base = "generate." + (name.empty() ? "value" : name);
  const int count = ++paths_[base];
  return count == 1 ? base : fmt::format("{}_{}", base, count);
}

std::pair<StoredId, ValueId> OnePositionMaker::cache(BodyId body, ValueId of, Kept kept, Span span) {
  kept.path = cache_path(of);
  kept.span = span;
  const StoredId stored = caches_.declare(body, kept.path, kept.type, span);
  kept_.push_back(std::move(kept));
  return {stored, caches_.before(stored, body)};
}

ValueId OnePositionMaker::read(StoredId id) {
  const auto [known, fresh] = stored_.try_emplace(id);
  if (!fresh) return known->second;
  const Stored& stored = from_.stored[id.index];
  GraphBuilder at = build(to_.root(), stored.span);
  const StoredId made = at.stored(stored.kind, stored.path, stored.type, stored.initial);
  to_.stored[made.index].stacked = stored.stacked;
  made_[id] = made;
  return known->second = to_.stored[made.index].value;
}

ValueId OnePositionMaker::position() {
  if (!position_) {
    const StoredId made =
        build(to_.root(), asked_.span).stored(StoredKind::input, meshrt::position_input, position_type(sequences_), {});
    position_ = to_.stored[made.index].value;
  }
  return position_;
}

// ---- values

ValueId OnePositionMaker::whole(ValueId id) {
  if (const auto known = wholes_.find(id); known != wholes_.end()) return known->second;
  ValueId made;
  const Node& node = from_.node(from_.value(id).producer);
  if (const auto* of = std::get_if<ReadOp>(&node.op)) made = read(of->stored);
  else if (!depends(id) && is_held(id)) made = held(id);
  else if (!depends(id)) made = copied(id, {}, [&](ValueId operand) { return whole(operand); });
  else if (!has_positions(id)) made = row(id);
  else if (const DimId dim = kept_along(id)) made = cached(id, dim);
  else made = all_positions(id);
  return wholes_[id] = made;
}

ValueId OnePositionMaker::all_positions(ValueId id) {
  const NodeId producer = from_.value(id).producer;
  if (std::holds_alternative<LoopOp>(from_.node(producer).op)) throw NotBuilt{producer};
  std::vector<ValueId> operands;
  for (const ValueId input : from_.node(producer).inputs) operands.push_back(whole(input));
  const NodeId made = again(producer, from_.node(producer).op, operands);
  return result_of(made, producer, id);
}

ValueId OnePositionMaker::cached(ValueId id, DimId dim) {
  const ValueId now = row(id);
  const BodyId body = to_.value(now).body;
  const Node& node = from_.node(from_.value(id).producer);
  const auto [stored, before] = cache(body, id, {{}, from_.type(id), Kept::What::positions, id}, node.span);
  GraphBuilder at = build(body, node);
  const std::vector<DimId>& dims = from_.type(id).dims;
  const bool first = !sequences_ || std::ranges::find(dims, dim) < std::ranges::find(dims, sequences_);
  // Dims as the cache has them, so that nothing is turned.
  const ValueId places = first && sequences_ ? at.broadcast(at.position(dim), {&sequences_, 1}) : at.position(dim);
  const ValueId asked = first ? position() : at.broadcast(position(), {&dim, 1});
  const ValueId here = at.map(MapFunction::equal, {places, asked});
  const ValueId next = at.map(MapFunction::where, {here, now, before});
  caches_.keep(stored, next);
  return next;
}

ValueId OnePositionMaker::row(ValueId id) {
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

ValueId OnePositionMaker::at_dim(ValueId id, DimId dim) {
  if (!has(from_.type(id).dims, dim)) return whole(id);
  if (depends(id)) {
    if (row_dim(id) != dim) throw NotBuilt{from_.value(id).producer};
    return row(id);
  }
  if (const auto known = taken_.find({id, dim}); known != taken_.end()) return known->second;
  const Node& node = from_.node(from_.value(id).producer);
  ValueId made;
  if (std::holds_alternative<PositionOp>(node.op)) made = position();
  else if (const auto* slice = std::get_if<SliceOp>(&node.op); slice != nullptr && slice->to == dim)
    made = taken_of_slice(node, *slice);
  else if (const auto* copies = std::get_if<BroadcastOp>(&node.op); copies != nullptr && has(copies->dims, dim))
    made = one_of_copies(node, *copies, dim);
  else if (definition(node.op).names_dims_alike && node.results.size() == 1 && !names_dim(node.op, dim))
    made = copied(id, dim, [&](ValueId operand) { return at_dim(operand, dim); });
  else made = taken(whole(id), dim, node);
  return taken_[{id, dim}] = made;
}

/// Of copies along a dim, one: the others need not be made.
ValueId OnePositionMaker::one_of_copies(const Node& node, const BroadcastOp& copies, DimId dim) {
  const ValueId one = whole(node.inputs[0]);
  const std::vector<DimId> others = filtered(copies.dims, [&](DimId other) { return other != dim; });
  return others.empty() ? one : build_like(node).broadcast(one, others);
}

/// Of what is sliced, the slice's element at this position.
ValueId OnePositionMaker::taken_of_slice(const Node& node, const SliceOp& slice) {
  const ValueId table = whole(node.inputs[0]);
  GraphBuilder at = build(to_.value(table).body, node);
  ValueId index = position();
  if (slice.step != 1) index = at.multiply(index, at.literal(static_cast<double>(slice.step), Type::i32));
  if (slice.begin != 0) index = at.add(index, at.literal(static_cast<double>(slice.begin), Type::i32));
  return element_at(at, table, slice.from, index);
}

ValueId OnePositionMaker::taken(ValueId table, DimId dim, const Node& of) {
  GraphBuilder at = build(to_.value(table).body, of);
  return element_at(at, table, dim, position());
}

template <class Operand>
ValueId OnePositionMaker::copied(ValueId id, DimId without, Operand operand) {
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
  if (without && (names_dim(op, without) || names_dim(op, source))) return taken(all_positions(id), without, node);
  std::vector<ValueId> operands;
  for (const ValueId input : node.inputs)
    operands.push_back(source == without ? operand(input) : at_dim(input, source));
  if (const std::optional<ValueId> own = of_each_sequence(node, op, operands)) return *own;
  const NodeId made = again(producer, op, operands);
  for (const ValueId other : node.results)
    if (other != id) (without || depends(other) ? rows_ : wholes_)[other] = result_of(made, producer, other);
  return result_of(made, producer, id);
}

/// An op that adds the sequences to what has none, where its operand is of each sequence by now: it stands at another
/// position of each.
std::optional<ValueId> OnePositionMaker::of_each_sequence(const Node& node, const Op& op,
                                                          std::span<const ValueId> operands) {
  const auto is_of_each = [&](ValueId id) { return sequences_ && has(to_.type(id).dims, sequences_); };
  if (const auto* broadcast = std::get_if<BroadcastOp>(&op);
      broadcast != nullptr && has(broadcast->dims, sequences_) && is_of_each(operands[0]))
    return build_like(node).broadcast(operands[0],
                                      filtered(broadcast->dims, [&](DimId dim) { return dim != sequences_; }));
  return std::nullopt;
}

NodeId OnePositionMaker::again(NodeId producer, const Op& op, const std::vector<ValueId>& operands) {
  const Node& node = from_.node(producer);
  GraphBuilder at = build_like(node);
  const NodeId made = at.append(op, operands);
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId result = to_.node(made).results[i];
    const Value& original = from_.value(node.results[i]);
    to_.value(result).type.element = original.type.element;  // of a literal and a cast the op does not say them
    to_.value(result).type.index_of = original.type.index_of;
    to_.value(result).take_names(original);
    to_.value(result).label = original.label;
  }
  return made;
}
ValueId OnePositionMaker::result_of(NodeId made, NodeId producer, ValueId id) const {
  const std::vector<ValueId>& results = from_.node(producer).results;
  return to_.node(made).results[static_cast<size_t>(std::ranges::find(results, id) - results.begin())];
}

std::optional<OnePosition> at_one_position(const Graph& model, DiagnosticSink& sink) {
  try {
    OnePosition made = OnePositionMaker(model, separate_sequences(model)).take();
    // The slots of a ring hold the same positions for all sequences.
    if (made.sequences && has_windows(made)) made = OnePositionMaker(model, {}).take();
    keep_needed(made);
    verify_graph(made.graph, "at_one_position");
    return made;
  } catch (const NotBuilt& at) {
    const Node& node = model.node(at.node);
    sink.error("E0901", node.span,
               fmt::format("`{}` along what is generated is not built yet", op_text(model, node.op)))
        .here("this version cannot take it position by position")
        .label(model.generation->span, "asked for here");
    return std::nullopt;
  }
}

}  // namespace mesh
