// tensor_runs.h: a rank's part of a tensor as runs of elements that lie side by side both in the part and in the whole.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "meshrt/tensor.h"

namespace meshrt {

/// What is here of one dim of `size`.
struct Extent {
  int64_t size, length;
  std::vector<IndexRange> ranges;  ///< of indices, in the order in which they are held
  Extent(int64_t size, int64_t begin, int64_t end, const Deal& deal = {})
      : size(size), length(end - begin), ranges(ranges_at(size, deal, begin, end)) {}
  /// The range in which the element at `place` of those here lies; `place` counts within it from then on.
  const IndexRange& range_at(int64_t& place) const {
    const IndexRange* range = ranges.data();
    for (; place >= range->size(); ++range) place -= range->size();
    return *range;
  }
  int64_t index_at(int64_t place) const {
    const IndexRange& range = range_at(place);
    return range.begin + place;
  }
  bool whole() const { return ranges.size() == 1 && length == size; }
};

inline std::vector<Extent> extents_of(const Tensor& tensor) {
  std::vector<Extent> extents;
  for (const LocalDim& dim : tensor.dims) extents.emplace_back(dim.size, dim.begin, dim.end, dim.deal);
  return extents;
}

inline std::vector<int64_t> sizes_of(const Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const LocalDim& dim : tensor.dims) shape.push_back(dim.size);
  return shape;
}

/// Calls visit(element of the whole, element of the part, count) for the runs that make up the elements [first, last)
/// of the part, in their order. Both are counted row-major.
template <class Visit>
void for_each_run(std::span<const Extent> part, int64_t first, int64_t last, Visit visit) {
  // The last dims of which all is here lie side by side, and so do ranges of the one before them.
  size_t outer = part.size();
  int64_t row = 1;
  while (outer > 0 && part[outer - 1].whole()) row *= part[--outer].size;
  for (int64_t at = first; at < last;) {
    int64_t rest = at / row, whole = at % row, count = row - whole, step = row;
    for (size_t d = outer; d-- > 0;) {
      int64_t place = rest % part[d].length;
      rest /= part[d].length;
      const IndexRange& range = part[d].range_at(place);
      if (d + 1 == outer) count += (range.size() - place - 1) * row;
      whole += (range.begin + place) * step;
      step *= part[d].size;
    }
    count = std::min(count, last - at);
    visit(whole, at, count);
    at += count;
  }
}

}  // namespace meshrt
