// lower_slice.cpp: slices and padding, read where the operand lies: a nest walks along the operand's dim by an
// IndexMap.
#include <algorithm>

#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"

namespace mesh {

/// Of the buffer's dims, turns included.
size_t Lowering::position_of(const Access& access, DimId dim) const {
  const std::vector<LocalDim>& dims = program_.buffer(access.buffer).dims;
  for (size_t i = access.turns.size(); i < dims.size(); ++i)
    if (dims[i].dim == dim && !map_at(access, i)) return i;
  internal_error(program_.buffer(access.buffer).name + " lacks the dim " + graph_.dim(dim).name);
}

/// A slice, or a slice of a slice. Of a split dim this rank has what its part of the result is made of, within margins;
/// or, where the result is not split so, gives what it owns, and zero for the rest: a partial sum.
Access Lowering::sliced(const Node& node) const {
  const SliceOp& op = std::get<SliceOp>(node.op);
  const ValueId input = node.inputs[0];
  Access from = memory_[input.index] ? *memory_[input.index] : sliced(graph_.node(graph_.value(input).producer));
  for (IndexMap& map : from.maps)
    if (map.along == op.from) {
      map.along = op.to;
      map.begin += map.step * op.begin;
      map.step *= op.step;
      return from;
    }
  IndexMap map{position_of(from, op.from), op.to, op.begin, op.step, 1, {}};
  const DimPlacement& held = program_.buffer(from.buffer).dims[map.position].placement;
  const auto lies_so = [&](const LocalDim& made) { return made.dim == op.to && made.placement.axes == held.axes; };
  if (!held.axes.empty() && std::ranges::none_of(local_dims(node.results[0]), lies_so)) map.outside = 0;
  return mapped(from, map);
}

Access Lowering::padded(const Node& node) const {
  const PadOp& op = std::get<PadOp>(node.op);
  const Access& from = *memory_[node.inputs[0].index];
  return mapped(from, {position_of(from, op.from), op.to, -op.before, 1, op.every, op.value});
}

/// Within the margins that the operand is held with.
Access Lowering::shifted(const Node& node) const {
  const ShiftOp& op = std::get<ShiftOp>(node.op);
  const Access& from = *memory_[node.inputs[0].index];
  return mapped(from, {position_of(from, op.dim), op.dim, op.distance, 1, 1, {}});
}

/// Each operand is stored to its stretch of the result.
void Lowering::lower_concat(const Node& node) {
  const ConcatOp& op = std::get<ConcatOp>(node.op);
  const Access to = allocate(node.results[0]);
  const size_t position = position_of(to, op.to);
  IndexMap map{position, {}, 0, 1, 1, {}};
  for (size_t i = 0; i < op.parts.size(); ++i) {
    Pass pass;
    const std::vector<LocalDim>& dims = program_.buffer(to.buffer).dims;
    const std::vector<LocalDim> parts = local_dims(node.inputs[i]);
    for (size_t d = to.turns.size(); d < dims.size(); ++d) {
      if (d != position) pass.inner.push_back(dims[d]);
      else if (op.parts[i]) pass.inner.push_back(*std::ranges::find(parts, op.parts[i], &LocalDim::dim));
    }
    map.along = op.parts[i];
    const int what = scalar(pass, node.inputs[i], {});
    pass.stores.push_back({convert(pass, what, program_.buffer(to.buffer).type), mapped(to, map)});
    emit(Nest{{}, {std::move(pass)}, {}});
    map.begin += op.parts[i] ? graph_.dim(op.parts[i]).size : 1;
  }
}

/// The last of the values that get margins one after the other, a dim each: all of them lie in its memory.
ValueId Lowering::with_all_margins(ValueId value) const {
  for (NodeId id : graph_.body(graph_.value(value).body).nodes) {
    const Node& node = graph_.node(id);
    const auto* reshard = std::get_if<ReshardOp>(&node.op);
    if (reshard && node.inputs[0] == value && sharded_.steps[reshard->step].kind == CollectiveKind::halo)
      return with_all_margins(node.results[0]);
  }
  return value;
}

/// The own part is stored between the margins, which are then filled in place.
void Lowering::lower_margins(const Node& node) {
  const ValueId from = node.inputs[0], to = node.results[0];
  const uint32_t index = std::get<ReshardOp>(node.op).step;
  const ReshardStep& reshard = sharded_.steps[index];
  if (sharded_.placement(from).has_margins()) {
    memory_[to.index] = memory_[from.index];
  } else {
    Pass pass;
    const int what = scalar(pass, from, {});
    const ValueId all = with_all_margins(to);
    const Access made{new_buffer(short_name(from) + "_wide", graph_.value(from).name, graph_.type(from).element,
                                 local_dims(all), BufferKind::workspace, node.span),
                      {}};
    for (const LocalDim& local : dims_of(program_, made)) pass.inner.push_back(without_margin(local));
    pass.stores.push_back({convert(pass, what, program_.buffer(made.buffer).type), made});
    emit(Nest{{}, {std::move(pass)}, {}});
    memory_[to.index] = made;
  }
  CollectiveStep step{};
  step.kind = reshard.kind;
  step.axes = reshard.axes;
  step.step = first_step_ + index;
  step.from = step.to = *memory_[to.index];
  const auto dims = dims_of(program_, step.to);
  step.before = step.after = {dims.begin(), dims.end()};
  const DimId dim = graph_.type(to).dims[static_cast<size_t>(reshard.from_dim)];
  step.from_dim = step.to_dim = static_cast<int>(position_of(step.to, dim));
  if (!step.axes.empty()) program_.buffer(step.to.buffer).space = Space::arena;
  emit(std::move(step));
}

}  // namespace mesh
