// lower_view.cpp: renames, splits and merges of dims: other names for the same memory wherever its order allows.
#include <algorithm>

#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"

namespace mesh {

namespace {

size_t place_of(const std::vector<LocalDim>& dims, DimId dim) {
  const auto found = std::find_if(dims.begin(), dims.end(), [&](const LocalDim& local) { return local.dim == dim; });
  return static_cast<size_t>(found - dims.begin());
}

}  // namespace

void Lowering::lower_rename(const Node& node) {
  const RenameOp& op = std::get<RenameOp>(node.op);
  const ValueId from = node.inputs[0], to = node.results[0];
  if (!memory_[from.index]) return lower_formula(to);
  const auto held = dims_of(program_, *memory_[from.index]);
  std::vector<LocalDim> dims(held.begin(), held.end());
  for (LocalDim& local : dims) local.dim = renamed(op, local.dim);
  memory_[to.index] = Access{view(*memory_[from.index], dims), memory_[from.index]->turns};
}

void Lowering::lower_split(const Node& node) {
  const SplitOp& op = std::get<SplitOp>(node.op);
  const Access from = in_memory(node.inputs[0]);
  const auto held = dims_of(program_, from);
  std::vector<LocalDim> dims(held.begin(), held.end());
  const auto at = dims.begin() + static_cast<std::ptrdiff_t>(place_of(dims, op.from));
  const std::vector<LocalDim> parts = ordered(local_dims(node.results[0]), op.to);
  const auto where = dims.erase(at);
  dims.insert(where, parts.begin(), parts.end());
  memory_[node.results[0].index] = Access{view(from, dims), from.turns};
}

/// A view where the merged dims are neighbours in order; else they are brought together first, where the last of them
/// lies: what lies side by side stays so, and is copied in whole lines.
void Lowering::lower_merge(const Node& node) {
  const MergeOp& op = std::get<MergeOp>(node.op);
  Access from = in_memory(node.inputs[0]);
  const auto dims_now = [&] {
    const auto held = dims_of(program_, from);
    return std::vector<LocalDim>(held.begin(), held.end());
  };
  std::vector<LocalDim> dims = dims_now();
  const size_t first = place_of(dims, op.from[0]);
  bool together = first + op.from.size() <= dims.size();
  for (size_t i = 0; together && i < op.from.size(); ++i) together = dims[first + i].dim == op.from[i];
  if (!together) {
    std::vector<DimId> order;
    for (const LocalDim& local : dims) {
      if (local.dim == op.from.back()) order.insert(order.end(), op.from.begin(), op.from.end());
      else if (std::find(op.from.begin(), op.from.end(), local.dim) == op.from.end()) order.push_back(local.dim);
    }
    from = reordered(from, order);
    dims = dims_now();
  }
  const auto at = dims.begin() + static_cast<std::ptrdiff_t>(place_of(dims, op.from[0]));
  const auto where = dims.erase(at, at + static_cast<std::ptrdiff_t>(op.from.size()));
  dims.insert(where, ordered(local_dims(node.results[0]), {op.to})[0]);
  memory_[node.results[0].index] = Access{view(from, dims), from.turns};
}

}  // namespace mesh
