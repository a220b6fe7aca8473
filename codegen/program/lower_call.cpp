// lower_call.cpp: what the runtime does as a whole: lookups, attention, and movements between ranks.
#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/program/extent.h"
#include "codegen/program/lookup_dims.h"
#include "codegen/program/lowering.h"

namespace mesh {

void Lowering::lower_take(const Node& node) {
  const DimId dim = std::get<TakeOp>(node.op).dim;
  Access table = in_memory(node.inputs[0]), ids = in_memory(node.inputs[1]);
  const Access result = allocate(node.results[0]);
  // Numbers in another order than the result begins with are turned: there are fewer of them than of its elements.
  const size_t count = dims_of(program_, ids).size();
  std::vector<DimId> wanted;
  for (const LocalDim& local : dims_of(program_, result).first(count)) wanted.push_back(local.dim);
  const auto is_wanted = [&](const LocalDim& local) { return std::ranges::count(wanted, local.dim) > 0; };
  if (std::ranges::all_of(dims_of(program_, ids), is_wanted)) ids = in_order(ids, wanted);
  ids = in_order(ids, lookup_order_of_ids(program_, table, ids, dim));
  table = in_order(table, lookup_order_of_table(program_, table, ids, dim));
  const Dims order = lookup_order_of_rows(program_, table, ids, dim);
  const Access made = lies_in(result, order) ? result : turned(result, order);
  emit(TakeStep{table, ids, made, dim});
  if (made != result) emit(CopyStep{made, result});
}

void Lowering::lower_scatter(const Node& node) {
  const ScatterOp& op = std::get<ScatterOp>(node.op);
  const Access result = allocate(node.results[0]);
  Access ids = in_memory(node.inputs[0]);
  ids = in_order(ids, lookup_order_of_ids(program_, result, ids, op.dim));
  const Dims order = lookup_order_of_table(program_, result, ids, op.dim);
  const Access table = lies_in(result, order) ? result : turned(result, order);
  const Access rows = in_order(in_memory(node.inputs[1]), lookup_order_of_rows(program_, table, ids, op.dim));
  emit(ScatterStep{ids, rows, table, op.dim, op.reduce});
  if (table != result) emit(CopyStep{table, result});
}

namespace {

/// The dims of q that are neither its position nor the head's: batch and heads.
std::vector<DimId> batch_of(const Program& program, const Access& q, const AttentionOp& op) {
  std::vector<DimId> batch;
  for (const LocalDim& local : dims_of(program, q))
    if (local.dim != op.query && local.dim != op.head_dim) batch.push_back(local.dim);
  return batch;
}

}  // namespace

/// As the kernels read and write them: the numbers of a head lie side by side, and so do the heads that share keys.
std::vector<DimId> Lowering::order_of_heads(const Access& access, const std::vector<DimId>& shared,
                                            DimId innermost) const {
  Dims order;
  for (const LocalDim& local : dims_of(program_, access)) {
    if (local.dim == innermost || has(order, local.dim)) continue;
    if (has(shared, local.dim)) order.insert(order.end(), shared.begin(), shared.end());
    else order.push_back(local.dim);
  }
  order.push_back(innermost);
  return order;
}

void Lowering::lower_attention(const Node& node) {
  AttentionStep step{};
  step.op = std::get<AttentionOp>(node.op);
  attend(node, step, {{&step.out, 0, step.op.value_dim}});
}

void Lowering::lower_attention_gradient(const Node& node) {
  AttentionStep step{};
  step.op = std::get<AttentionGradientOp>(node.op).forward;
  step.backward = true;
  const AttentionOp& op = step.op;
  attend(node, step, {{&step.d_q, 0, op.head_dim}, {&step.d_k, 1, op.head_dim}, {&step.d_v, 2, op.value_dim}});
}

/// `results`: those that have the numbers of heads, each with its innermost dim. One that is to lie otherwise is copied
/// there.
void Lowering::attend(const Node& node, AttentionStep& step, const std::vector<AttentionResult>& results) {
  const AttentionOp& op = step.op;
  const Dims &keys = graph_.type(node.inputs[1]).dims,
             &rows = graph_.type(step.backward ? node.inputs[4] : node.results[1]).dims;
  const Dims shared = filtered(rows, [&](DimId dim) { return dim != op.query && !has(keys, dim); });
  const auto heads = [&](ValueId value, DimId innermost) {
    const Access from = in_memory(value);
    return in_order(from, order_of_heads(from, shared, innermost));
  };
  step.q = heads(node.inputs[0], op.head_dim);
  step.k = heads(node.inputs[1], op.head_dim);
  step.v = heads(node.inputs[2], op.value_dim);
  if (step.backward) {
    step.out = heads(node.inputs[3], op.value_dim);
    step.log_sum = in_memory(node.inputs[4]);
    step.d_out = heads(node.inputs[5], op.value_dim);
  }
  std::vector<CopyStep> copies;
  for (const auto& [to, index, innermost] : results) {
    const Access result = allocate(node.results[index]);
    const std::vector<DimId> order = order_of_heads(result, shared, innermost);
    *to = lies_in(result, order) ? result : turned(result, order);
    if (*to != result) copies.push_back({*to, result});
  }
  if (!step.backward) step.log_sum = allocate(node.results[1]);
  step.batch = batch_of(program_, step.q, op);
  step.ring = ring_of(node, step);
  emit(std::move(step));
  for (CopyStep& copy : copies) emit(std::move(copy));
}

/// What an attention has whose keys and values go round: places for the parts that pass.
std::optional<AttentionStep::Ring> Lowering::ring_of(const Node& node, const AttentionStep& step) {
  AttentionStep::Ring ring;
  for (const NodeId id : graph_.body(node.body).nodes) {
    const Node& moved = graph_.node(id);
    const auto* reshard = std::get_if<ReshardOp>(&moved.op);
    if (!reshard || sharded_.steps[reshard->step].kind != CollectiveKind::ring) continue;
    if (std::ranges::count(node.inputs, moved.results[0]) + std::ranges::count(node.results, moved.inputs[0]) == 0)
      continue;
    ring.axes = sharded_.steps[reshard->step].axes;
    ring.meets = sharded_.steps[reshard->step].meets;
    ring.steps.push_back(first_step_ + reshard->step);
  }
  if (ring.steps.empty()) return {};
  const auto place = [&](ValueId value, const Access& like, const char* part) -> Access {
    const auto dims = dims_of(program_, like);
    const BufferId made =
        new_buffer(short_name(value) + part, graph_.value(value).name, program_.buffer(like.buffer).type,
                   {dims.begin(), dims.end()}, BufferKind::workspace, node.span);
    program_.buffer(made).space = Space::arena;
    return {made, {}};
  };
  for (const Access* own : {&step.k, &step.v}) program_.buffer(storage(program_, own->buffer)).space = Space::arena;
  const auto places = [&](size_t input, const Access& like) -> std::array<Access, 2> {
    return {place(node.inputs[input], like, "_here"), place(node.inputs[input], like, "_next")};
  };
  ring.k = places(1, step.k);
  ring.v = places(2, step.v);
  if (!step.backward) return ring;
  const auto sums = [&](size_t result, const Access& like) -> std::array<Access, 3> {
    const ValueId value = node.results[result];
    return {place(value, like, "_added"), place(value, like, "_came"), place(value, like, "_sent")};
  };
  ring.d_k = sums(1, step.d_k);
  ring.d_v = sums(2, step.d_v);
  return ring;
}

/// A collective moves blocks as they stand: `from` must lie as `like` does.
Access Lowering::ordered_as(const Access& like, const Access& from) {
  std::vector<DimId> order;
  for (const LocalDim& local : dims_of(program_, like)) order.push_back(local.dim);
  return in_order(from, order);
}

/// What goes round does so within the step that works on it: here it stays where it lies.
void Lowering::lower_ring(const Node& node) {
  const ValueId from = node.inputs[0], to = node.results[0];
  if (target_[to.index]) return copy(in_memory(from), allocate(to));
  memory_[to.index] = in_memory(from);
}

/// Whether nobody else needs what a loop has added up, nor its memory.
bool Lowering::is_sum_of_its_own(ValueId value) const {
  const auto* loop = std::get_if<LoopOp>(&graph_.node(graph_.value(value).producer).op);
  if (!loop || readers_[value.index] != 1 || !memory_[value.index] || target_[value.index]) return false;
  const Buffer& buffer = program_.buffer(memory_[value.index]->buffer);
  return memory_[value.index]->turns.empty() && !buffer.view_of && buffer.dims == local_dims(value) &&
         std::ranges::count(loop->carries, value, &LoopOp::Carry::result) > 0;
}

/// The others at whose coordinates terms lie have zeros: adding -0 changes no number.
void Lowering::lower_term(const Node& node, AxisId axis) {
  const ValueId from = node.inputs[0], to = node.results[0];
  const Where *has = sharded_.placement(from).where(axis), *will_have = sharded_.placement(to).where(axis);
  if (is_alone(from) || is_sum_of_its_own(from)) {
    memory_[to.index] = memory_[from.index];
  } else {
    at_ = where(from);
    const Access term = in_memory(from);
    copy(term, allocate(to));
  }
  Where others{axis};
  for (int64_t at = 0; at < sharded_.layout.mesh.axes[axis].size; ++at)
    if (std::ranges::count(has->coordinates, at) == 0 &&
        (!will_have || std::ranges::count(will_have->coordinates, at) > 0))
      others.coordinates.push_back(at);
  at_ = where(from);
  *std::ranges::find(at_.at, axis, &Where::axis) = others;
  emit(FillStep{*memory_[to.index], -0.0});
  at_ = work_place(node);
}

/// Positions in a reshard step count the value's logical dims; in a collective step they count dims in memory.
void Lowering::lower_reshard(const Node& node) {
  const ValueId from = node.inputs[0], to = node.results[0];
  const uint32_t index = std::get<ReshardOp>(node.op).step;
  const ReshardStep& reshard = sharded_.steps[index];
  if (reshard.kind == CollectiveKind::halo) return lower_margins(node);
  if (reshard.kind == CollectiveKind::ring) return lower_ring(node);
  if (reshard.kind == CollectiveKind::term) return lower_term(node, reshard.at.axis);
  if (constant(to)) return lower_formula(to);
  if (reshard.kind == CollectiveKind::slice) {
    if (is_formula(to)) return;
    const bool stays = reshard.to_dim < 0 && !target_[to.index];  // where it is, for some ranks alone
    if (memory_[from.index] && stays) {
      memory_[to.index] = memory_[from.index];
      return;
    }
    if (memory_[from.index]) {
      emit(CopyStep{*memory_[from.index], allocate(to)});
      return;
    }
    return lower_formula(to);
  }
  CollectiveStep step{};
  step.kind = reshard.kind;
  step.axes = reshard.axes;
  step.to_axes = reshard.to_axes;
  step.at = reshard.at;
  step.reduce = reshard.reduce;
  step.step = first_step_ + index;
  if (reshard.kind == CollectiveKind::all_reduce) {  // in place, of a total in its wider type
    step.from = memory_[from.index] ? *memory_[from.index] : in_memory(from);
    const bool own = is_alone(from) ||
                     (target_[from.index] && readers_[from.index] == 1 && memory_[from.index] == target_[from.index]);
    if (own) {
      memory_[to.index] = step.from;
    } else {
      const Access made = allocate(to);
      copy(step.from, made);
      step.from = made;
    }
    step.to = step.from;
  } else {
    step.to = allocate(to);
    at_ = where(from);
    step.from = ordered_as(step.to, in_memory(from));
    at_ = work_place(node);
  }
  const auto before = dims_of(program_, step.from), after = dims_of(program_, step.to);
  step.before.assign(before.begin(), before.end());
  step.after.assign(after.begin(), after.end());
  const std::vector<DimId>& logical = graph_.type(from).dims;
  const auto position = [&](int of) {
    if (of < 0) return -1;
    const auto found = std::find_if(before.begin(), before.end(), [&](const LocalDim& local) {
      return local.dim == logical[static_cast<size_t>(of)];
    });
    return static_cast<int>(found - before.begin());
  };
  step.from_dim = position(reshard.from_dim);
  step.to_dim = position(reshard.to_dim);
  if (!step.axes.empty())  // else this rank does it alone
    for (const BufferId buffer : {step.from.buffer, step.to.buffer})
      program_.buffer(storage(program_, buffer)).space = Space::arena;
  emit(std::move(step));
}

}  // namespace mesh
