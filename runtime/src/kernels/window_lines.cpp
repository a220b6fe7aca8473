#include "window_lines.h"

#include <algorithm>

namespace meshrt {

int64_t first_inside(const Held& held) { return std::max<int64_t>(0, -held.begin); }
int64_t end_inside(const Held& held) { return std::min(held.count, held.size - held.begin); }

std::vector<WindowLine> lines_to_narrow(const WindowDim& window) {
  WindowLine line{window.narrow.count, 0, 1, window.stride, first_inside(window.wide), end_inside(window.wide), {}, {}};
  for (int64_t k = 0; k < window.kernel; ++k) {
    line.taps.push_back(k);
    line.bases.push_back(window.stride * window.narrow.begin + window.dilation * k - window.before - window.wide.begin);
  }
  return {std::move(line)};
}

std::vector<WindowLine> lines_to_wide(const WindowDim& window) {
  std::vector<WindowLine> classes;
  for (int64_t first = 0; first < std::min(window.stride, window.wide.count); ++first) {
    const int64_t count = (window.wide.count - first + window.stride - 1) / window.stride;
    WindowLine line{count, first, window.stride, 1, first_inside(window.narrow), end_inside(window.narrow), {}, {}};
    for (int64_t k = 0; k < window.kernel; ++k) {
      const int64_t met = window.wide.begin + first + window.before - window.dilation * k;  // stride * its n
      if (met % window.stride != 0) continue;
      line.taps.push_back(k);
      line.bases.push_back(met / window.stride - window.narrow.begin);
    }
    classes.push_back(std::move(line));
  }
  return classes;
}

std::vector<WindowClass> window_classes(const WindowDims& windows, bool to_wide) {
  std::array<std::vector<WindowLine>, 3> lines;
  for (size_t i = 0; i < windows.size(); ++i)
    lines[i] = to_wide ? lines_to_wide(windows[i]) : lines_to_narrow(windows[i]);
  std::vector<WindowClass> classes;
  for (const WindowLine& a : lines[0])
    for (const WindowLine& b : lines[1])
      for (const WindowLine& c : lines[2]) classes.push_back({a, b, c});
  return classes;
}

}  // namespace meshrt
