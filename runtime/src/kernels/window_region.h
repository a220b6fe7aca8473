// window_region.h: windows over what a rank holds of a dim, as a library takes them that knows nothing of parts: all
// elements of both sides meet, and what lies beyond a side's ends counts as zeros.
#pragma once
#include "meshrt/window.h"

namespace meshrt {

struct Stretch {
  int64_t begin = 0, count = 0;
};

/// Places among what the rank holds of the two sides, and how many zeros stand before and after the wide one. Where the
/// wide side is made, its elements outside of the region are met by no window.
struct WindowRegion {
  Stretch wide, narrow;
  int64_t before = 0, after = 0;

  bool is_empty() const { return wide.count <= 0 || narrow.count <= 0; }
};

/// For a part of what is held of the narrow side: the windows that begin there.
WindowRegion region_of_narrow(const WindowDim& window, Stretch narrow);
/// For a part of what is held of the wide side: the windows that meet it.
WindowRegion region_of_wide(const WindowDim& window, Stretch wide);

}  // namespace meshrt
