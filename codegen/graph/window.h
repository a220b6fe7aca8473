// window.h: windows that move along a dim: each element of a narrow dim is made of some of a wide one, stride apart.
// What a part of one needs of the other depends on where parts begin, so it is asked when the split is known.
#pragma once
#include <cstdint>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Element n of the narrow dim meets stride * n + dilation * k - before of the wide one, for each k below `kernel`;
/// where that lies beyond its ends there is nothing.
struct WindowShape {
  int64_t wide = 1, narrow = 1;  // sizes
  int64_t kernel = 1, stride = 1, dilation = 1, before = 0;
  auto operator<=>(const WindowShape&) const = default;

  /// From the first element of a window to the last.
  int64_t reach() const { return dilation * (kernel - 1); }
};

/// An op that moves windows along a factor reads operands beside the part that it has.
struct WindowReach {
  WindowShape shape;
  bool of_wide = true;           // these operands have the wide dim, what is split alike the narrow one; or the reverse
  std::vector<size_t> operands;  // that are read so; others have just the part
  bool zeros_beyond = false;     // what would lie beyond the ends is read as zero; else nothing is read there
  /// What that takes, the most over all parts, where both dims are in so many parts.
  Margin margin(int64_t parts) const;
};

}  // namespace mesh
