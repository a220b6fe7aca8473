// tensor_part.h: a rank's part of a tensor as runs of elements that lie side by side both in the part and in the whole.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "meshrt/program_info.h"
#include "meshrt/tensor.h"

namespace meshrt {

/// [begin, end) of one dim of `size`.
struct Extent {
  int64_t size, begin, end;
  int64_t length() const { return end - begin; }
};

inline std::vector<Extent> extents_of(const Tensor& tensor) {
  std::vector<Extent> extents;
  for (const LocalDim& dim : tensor.dims) extents.push_back({dim.size, dim.begin, dim.end});
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
  // The last dims of which all is here, and the one before them, lie side by side.
  size_t outer = part.size();
  int64_t run = 1, stride = 1, start = 0;
  while (outer > 0) {
    const Extent& dim = part[--outer];
    run *= dim.length();
    start += dim.begin * stride;
    stride *= dim.size;
    if (dim.length() != dim.size) break;
  }
  for (int64_t at = first; at < last;) {
    const int64_t within = at % run, count = std::min(run - within, last - at);
    int64_t whole = start + within, rest = at / run, step = stride;
    for (size_t d = outer; d-- > 0;) {
      whole += (part[d].begin + rest % part[d].length()) * step;
      rest /= part[d].length();
      step *= part[d].size;
    }
    visit(whole, at, count);
    at += count;
  }
}

/// The elements of its part that a rank writes and vouches for: ranks that hold copies of one part share it out.
struct Share {
  int64_t first = 0, last = 0;  ///< of the part's elements
  int64_t count() const { return last - first; }
};
Share share_of(const Tensor& tensor, std::span<const MeshAxis> mesh, int rank);

}  // namespace meshrt
