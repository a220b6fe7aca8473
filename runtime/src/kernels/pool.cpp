#include "meshrt/pool.h"

#include <algorithm>
#include <vector>

#include "meshrt/math.h"
#include "patches.h"

namespace meshrt {
namespace {

/// How many elements each window along one dim has, of those that the rank holds.
std::vector<int64_t> sizes_along(const WindowDim& window) {
  std::vector<int64_t> sizes;
  for (int64_t n = window.narrow.begin; n < window.narrow.begin + window.narrow.count; ++n) {
    int64_t size = 0;
    for (int64_t k = 0; k < window.kernel; ++k) {
      const int64_t at = window.stride * n + window.dilation * k - window.before;
      size += at >= 0 && at < window.wide.size ? 1 : 0;
    }
    sizes.push_back(size);
  }
  return sizes;
}

/// The same of whole windows, [n0, n1, n2].
std::vector<int64_t> sizes(const WindowDims& windows) {
  std::vector<int64_t> all;
  const std::vector<int64_t> a = sizes_along(windows[0]), b = sizes_along(windows[1]), c = sizes_along(windows[2]);
  for (const int64_t i : a)
    for (const int64_t j : b)
      for (const int64_t k : c) all.push_back(i * j * k);
  return all;
}

/// For each class of the wide side: f(patches of the narrow one, the kernel's element of each of their taps, where a
/// pixel lies).
template <class T, class F>
void for_each_wide_class(const WindowDims& windows, const PoolExtents& extents, F f) {
  const std::array<int64_t, 3> wide = counts_held(windows, &WindowDim::wide);
  for (const WindowClass& lines : window_classes(windows, true)) {
    std::vector<int32_t> elements;
    for (const int64_t i : lines[0].taps)
      for (const int64_t j : lines[1].taps)
        for (const int64_t k : lines[2].taps)
          elements.push_back(static_cast<int32_t>((i * windows[1].kernel + j) * windows[2].kernel + k));
    const auto at = [&](size_t line, int64_t t) { return lines[line].target_begin + lines[line].target_step * t; };
    f(Patches<T>(lines, counts_held(windows, &WindowDim::narrow), extents.outer, 1, extents.inner), elements,
      [&, inner = extents.inner](int64_t outer, int64_t a, int64_t b, int64_t c) {
        return (((outer * wide[0] + at(0, a)) * wide[1] + at(1, b)) * wide[2] + at(2, c)) * inner;
      });
  }
}

// Loops over channels that the compiler turns into vector instructions: without branches, on memory that does not
// overlap, which it believes of a function's own parameters alone.

/// most = from, and chosen = element, where from is larger or the first NaN.
template <class T>
[[gnu::noinline]] void keep_larger(const T* __restrict from, int32_t element, int64_t n, T* __restrict most,
                                   int32_t* __restrict chosen) {
  for (int64_t i = 0; i < n; ++i) {
    const T one = from[i], other = most[i];
    const int32_t was = chosen[i];
    const bool larger = !(one <= other) & (other == other);
    chosen[i] = larger ? element : was;
    most[i] = where(larger, one, other);
  }
}

/// to += from where the element was chosen.
template <class T>
[[gnu::noinline]] void add_chosen(const T* __restrict from, int32_t element, const int32_t* __restrict chosen,
                                  int64_t n, T* __restrict to) {
  for (int64_t i = 0; i < n; ++i) to[i] += where(chosen[i] == element, from[i], T(0));
}

}  // namespace

template <class T>
void max_pool(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const PoolExtents& extents,
              const T* x, T* y, int32_t* places) {
  const WindowDims windows{slow, middle, fast};
  const WindowClass lines = window_classes(windows, false).front();
  const Patches<T> patches(lines, counts_held(windows, &WindowDim::wide), extents.outer, 1, extents.inner);
  const int64_t inner = extents.inner;
  if (inner == 0) return;
  patches.share_pixels(patches.inner(), [&](int64_t pixel, int64_t outer, int64_t a, int64_t b, int64_t c) {
    T* const most = y + pixel * inner;
    int32_t* const chosen = places + pixel * inner;
    bool first = true;
    patches.for_each_tap(x, outer, a, b, c, [&](size_t tap, const T* from) {
      const auto element = static_cast<int32_t>(tap);
      if (first) std::copy_n(from, inner, most), std::fill_n(chosen, inner, element);
      else keep_larger(from, element, inner, most, chosen);
      first = false;
    });
  });
}

template <class T>
void max_pool_gradient(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast,
                       const PoolExtents& extents, const int32_t* places, const T* d_y, T* d_x) {
  const WindowDims windows{slow, middle, fast};
  const int64_t inner = extents.inner;
  if (inner == 0) return;
  for_each_wide_class<T>(windows, extents, [&](const Patches<T>& patches, const auto& elements, auto place) {
    patches.share_pixels(patches.inner(), [&](int64_t, int64_t outer, int64_t a, int64_t b, int64_t c) {
      T* const to = d_x + place(outer, a, b, c);
      std::fill_n(to, inner, T(0));
      patches.for_each_tap(d_y, outer, a, b, c, [&](size_t tap, const T* from) {
        add_chosen(from, elements[tap], places + (from - d_y), inner, to);
      });
    });
  });
}

template <class T>
void avg_pool(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const PoolExtents& extents,
              const T* x, T* y) {
  const WindowDims windows{slow, middle, fast};
  const WindowClass lines = window_classes(windows, false).front();
  const Patches<T> patches(lines, counts_held(windows, &WindowDim::wide), extents.outer, 1, extents.inner);
  const std::vector<int64_t> counts = sizes(windows);
  const int64_t inner = extents.inner;
  if (inner == 0) return;
  patches.share_pixels(patches.inner(), [&](int64_t pixel, int64_t outer, int64_t a, int64_t b, int64_t c) {
    T* const mean = y + pixel * inner;
    std::fill_n(mean, inner, T(0));
    patches.for_each_tap(x, outer, a, b, c, [&](size_t, const T* from) {
      for (int64_t i = 0; i < inner; ++i) mean[i] += from[i];
    });
    const auto count = static_cast<T>(counts[static_cast<size_t>(pixel) % counts.size()]);
    for (int64_t i = 0; i < inner; ++i) mean[i] /= count;
  });
}

template <class T>
void avg_pool_gradient(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast,
                       const PoolExtents& extents, const T* d_y, T* d_x) {
  const WindowDims windows{slow, middle, fast};
  const std::vector<int64_t> counts = sizes(windows);
  const int64_t inner = extents.inner;
  if (inner == 0) return;
  for_each_wide_class<T>(windows, extents, [&](const Patches<T>& patches, const auto&, auto place) {
    patches.share_pixels(patches.inner(), [&](int64_t, int64_t outer, int64_t a, int64_t b, int64_t c) {
      T* const to = d_x + place(outer, a, b, c);
      std::fill_n(to, inner, T(0));
      patches.for_each_tap(d_y, outer, a, b, c, [&](size_t, const T* from) {
        const auto count = static_cast<T>(counts[static_cast<size_t>((from - d_y) / inner) % counts.size()]);
        for (int64_t i = 0; i < inner; ++i) to[i] += from[i] / count;
      });
    });
  });
}

template void max_pool(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&, const float*, float*,
                       int32_t*);
template void max_pool(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&, const double*, double*,
                       int32_t*);
template void max_pool_gradient(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&,
                                const int32_t*, const float*, float*);
template void max_pool_gradient(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&,
                                const int32_t*, const double*, double*);
template void avg_pool(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&, const float*, float*);
template void avg_pool(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&, const double*,
                       double*);
template void avg_pool_gradient(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&, const float*,
                                float*);
template void avg_pool_gradient(const WindowDim&, const WindowDim&, const WindowDim&, const PoolExtents&, const double*,
                                double*);

}  // namespace meshrt
