#include "meshrt/sort.h"

#include <bit>
#include <numeric>

#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"
#include "scratch.h"
#include "scratch_places.h"

namespace meshrt {

namespace {

/// What elements are compared as.
template <class T>
T compared(T x) {
  return x;
}
float compared(Bfloat16 x) { return float(x); }
float compared(Float16 x) { return float(x); }

template <class T>
bool sorts_before(T a, T b, int32_t index_a, int32_t index_b, bool descending) {
  if (a < b) return !descending;
  if (b < a) return descending;
  const bool nan_a = a != a, nan_b = b != b;
  return nan_a == nan_b ? index_a < index_b : nan_b;
}

}  // namespace

template <class T>
void sort_lines(const Lines& lines, bool descending, const T* x, T* values, int32_t* indices) {
  // To choose `count` of `size` elements takes a comparison or more for each, which the processor guesses wrong.
  constexpr int64_t elements_of_a_comparison = 4;
  const int64_t work = elements_of_a_comparison * lines.size * std::bit_width(static_cast<uint64_t>(lines.count));
  share_each(lines.outer, lines.inner, enough(work), [&](int64_t o, int64_t first, int64_t last) {
    auto* const order =
        static_cast<int32_t*>(Scratch::mine().bytes(sort_scratch, static_cast<size_t>(lines.size) * sizeof(int32_t)));
    for (int64_t i = first; i < last; ++i) {
      const T* const line = x + o * lines.size * lines.inner + i;
      std::iota(order, order + lines.size, 0);
      std::partial_sort(order, order + lines.count, order + lines.size, [&](int32_t a, int32_t b) {
        return sorts_before(compared(line[a * lines.inner]), compared(line[b * lines.inner]), a, b, descending);
      });
      for (int64_t k = 0; k < lines.count; ++k) {
        const int64_t to = (o * lines.count + k) * lines.inner + i;
        indices[to] = order[k];
        values[to] = line[order[k] * lines.inner];
      }
    }
  });
}

template void sort_lines(const Lines&, bool, const float*, float*, int32_t*);
template void sort_lines(const Lines&, bool, const double*, double*, int32_t*);
template void sort_lines(const Lines&, bool, const Bfloat16*, Bfloat16*, int32_t*);
template void sort_lines(const Lines&, bool, const Float16*, Float16*, int32_t*);
template void sort_lines(const Lines&, bool, const int32_t*, int32_t*, int32_t*);
template void sort_lines(const Lines&, bool, const int64_t*, int64_t*, int32_t*);
template void sort_lines(const Lines&, bool, const uint8_t*, uint8_t*, int32_t*);

}  // namespace meshrt
