// window.h: windows that move along dims, on one rank, which may hold parts of them alone.
#pragma once
#include <array>
#include <cstdint>

namespace meshrt {

/// What a rank holds of a dim: `count` elements from index `begin` on. Those outside of [0, size) are not read.
struct Held {
  int64_t size = 1, begin = 0, count = 1;
};

/// Element n of the narrow dim meets stride * n + dilation * k - before of the wide one, for each k below `kernel`;
/// where that lies beyond its ends there is nothing.
struct WindowDim {
  Held wide, narrow;
  int64_t kernel = 1, stride = 1, dilation = 1, before = 0;
};

/// Up to three, the slowest first in memory; the others, in front, are of one element.
using WindowDims = std::array<WindowDim, 3>;

}  // namespace meshrt
