// window_lines.h: windows as what one side takes from the other: of each element of the target the elements of the
// source that windows bring to it. From wide to narrow these are a window's; from narrow to wide those of every
// stride-th element of the target have the same distances, so the target is made class by class.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshrt/window.h"

namespace meshrt {

/// How many elements of a side are held along each dim.
inline std::array<int64_t, 3> counts_held(const WindowDims& windows, Held WindowDim::*side) {
  return {(windows[0].*side).count, (windows[1].*side).count, (windows[2].*side).count};
}

/// Of what is held, the places of the elements that lie within the dim.
int64_t first_inside(const Held& held);
int64_t end_inside(const Held& held);

/// Along one dim, the elements target_begin + target_step * t of the target, t < count, as the rank holds it: each
/// takes source_step * t + bases[i] of the source for the i-th of its taps, if that is in [source_begin, source_end).
struct WindowLine {
  int64_t count, target_begin, target_step, source_step, source_begin, source_end;
  std::vector<int64_t> taps, bases;  // which of the kernel's elements each is

  bool inside(int64_t t, size_t tap) const {
    const int64_t at = source_step * t + bases[tap];
    return at >= source_begin && at < source_end;
  }
};

/// The classes of one dim, in order of their first element.
std::vector<WindowLine> lines_to_narrow(const WindowDim&);
std::vector<WindowLine> lines_to_wide(const WindowDim&);

/// One class of each dim.
using WindowClass = std::array<WindowLine, 3>;

/// Every combination of classes.
std::vector<WindowClass> window_classes(const WindowDims&, bool to_wide);

}  // namespace meshrt
