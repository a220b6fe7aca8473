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

namespace {

void add_map(Access& access, const IndexMap& map) {
  const auto after = std::find_if(access.maps.begin(), access.maps.end(),
                                  [&](const IndexMap& other) { return other.position > map.position; });
  access.maps.insert(after, map);
}

}  // namespace

/// A slice, or a slice of a slice. Of a split dim this rank gives what it owns, and zero for the rest: a partial sum.
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
  if (!program_.buffer(from.buffer).dims[map.position].placement.axes.empty()) map.outside = 0;
  add_map(from, map);
  return from;
}

Access Lowering::padded(const Node& node) const {
  const PadOp& op = std::get<PadOp>(node.op);
  Access from = *memory_[node.inputs[0].index];
  add_map(from, {position_of(from, op.from), op.to, -op.before, 1, op.every, op.value});
  return from;
}

}  // namespace mesh
