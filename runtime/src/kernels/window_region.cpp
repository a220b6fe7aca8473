#include "window_region.h"

#include <algorithm>

#include "window_lines.h"

namespace meshrt {
namespace {

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0); }
int64_t ceil_of(int64_t a, int64_t b) { return -floor_of(-a, b); }

}  // namespace

WindowRegion region_of_narrow(const WindowDim& window, Stretch narrow) {
  const int64_t first = window.stride * (window.narrow.begin + narrow.begin) - window.before -
                        window.wide.begin;  // place on the wide side
  const int64_t end = first + window.stride * (narrow.count - 1) + window.dilation * (window.kernel - 1) + 1;
  const int64_t begin = std::max(first, first_inside(window.wide)), past = std::min(end, end_inside(window.wide));
  return {{begin, past - begin}, narrow, begin - first, end - past};
}

WindowRegion region_of_wide(const WindowDim& window, Stretch wide) {
  // Held element w of the wide side is met by the windows n where stride * n = w + shift - dilation * k.
  const int64_t shift = window.wide.begin + window.before - window.stride * window.narrow.begin;
  const int64_t reach = window.dilation * (window.kernel - 1);
  const int64_t begin = std::max(ceil_of(wide.begin + shift - reach, window.stride), first_inside(window.narrow));
  const int64_t past =
      std::min(floor_of(wide.begin + wide.count - 1 + shift, window.stride) + 1, end_inside(window.narrow));
  const int64_t first = window.stride * begin - shift, end = window.stride * (past - 1) - shift + reach + 1;
  const int64_t met = std::max(wide.begin, first), past_met = std::min(wide.begin + wide.count, end);
  return {{met, past_met - met}, {begin, past - begin}, met - first, end - past_met};
}

}  // namespace meshrt
