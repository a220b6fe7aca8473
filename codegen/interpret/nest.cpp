#include "codegen/interpret/nest.h"

#include <algorithm>

#include "meshrt/poll.h"

namespace mesh {

bool next_index(std::vector<int64_t>& index, std::span<const int64_t> extents) {
  for (size_t i = index.size(); i-- > 0;) {
    if (++index[i] < extents[i]) return true;
    index[i] = 0;
  }
  return false;
}

std::vector<BoundDim> bounds_among(const Binding& binding, const Nest& nest, std::span<const LocalDim> dims) {
  std::vector<BoundDim> found;
  for (const LoopBound& bound : nest.bounds) {
    const auto at = std::ranges::find(dims, bound.along);
    if (at != dims.end()) found.push_back({static_cast<size_t>(at - dims.begin()), BoundExtent(binding, bound)});
  }
  return found;
}

BoundNest::BoundNest(Binding& binding, const Nest& nest)
    : binding_(binding), rows_(std::make_unique<std::byte[]>(8 * std::max<size_t>(1, nest.rows.size()))) {
  for (const Pass& pass : nest.passes) {
    for (const Pass::Accumulate& accumulate : pass.accumulates) {
      if (accumulate.adds) continue;
      const Type type = binding.buffer(accumulate.to).type;
      Filled fill{Pointer(binding, accumulate.to), 1, chunk_kernels().move(type), {}};
      for (const LocalDim& dim : dims_of(binding.program, accumulate.to)) fill.elements *= binding.extent(dim);
      write_literal(neutral(accumulate.reduce), type, fill.value.data());
      fills_.push_back(fill);
    }
  }
  // The outer dims of a lone pass without row values are inner dims as well: its rows may then be longer.
  std::vector<LocalDim> outer = nest.outer, inner;
  const bool lone = nest.passes.size() == 1 && nest.passes[0].reductions.empty();
  if (lone) inner.swap(outer);
  for (const LocalDim& dim : outer) extents_.push_back(binding.extent(dim));
  bounds_ = bounds_among(binding, nest, outer);
  index_.assign(extents_.size(), 0);
  for (const Pass& pass : nest.passes) {
    std::vector<LocalDim> all = inner;
    all.insert(all.end(), pass.inner.begin(), pass.inner.end());
    passes_.emplace_back(binding, nest, pass, outer, all, rows_.get());
  }
}

void BoundNest::run() {
  for (const Filled& fill : fills_) fill.move(fill.value.data(), 0, fill.to.at(binding_), 1, fill.elements);
  for (const BoundDim& bound : bounds_) extents_[bound.at] = bound.extent.now(binding_);
  for (BoundPass& pass : passes_) pass.begin();
  if (std::ranges::any_of(extents_, [](int64_t extent) { return extent == 0; })) return;
  std::ranges::fill(index_, 0);
  do {
    meshrt::poll();
    for (BoundPass& pass : passes_) pass.run(index_);
  } while (next_index(index_, extents_));
}

}  // namespace mesh
