// sort.h: sorting along one dim of a value, a line of it at a time, and its gradient.
#pragma once
#include <cstdint>

#include "meshrt/threads.h"

namespace meshrt {

/// Lines along the middle dim of [outer, size, inner], of each of which `count` elements lie in [outer, count, inner].
struct Lines {
  int64_t outer, size, count, inner;
};

/// values [outer, count, inner] = the first `count` of each line of x when sorted, indices = where they stood. Equal
/// elements stand in order of index, NaN last. T is float, double, Bfloat16, Float16,
/// int32_t, int64_t or uint8_t.
template <class T>
void sort_lines(const Lines& lines, bool descending, const T* x, T* values, int32_t* indices);

/// to [outer, size, inner] = 0 but for x [outer, count, inner], each element at its index.
template <class T>
void place_lines(const Lines& lines, const int32_t* indices, const T* x, T* to) {
  fill(to, lines.outer * lines.size * lines.inner, T(0));
  share_each(lines.outer, lines.inner, enough(lines.count / moved_elements),
             [&](int64_t o, int64_t first, int64_t last) {
               for (int64_t k = 0; k < lines.count; ++k)
                 for (int64_t i = first; i < last; ++i) {
                   const int64_t from = (o * lines.count + k) * lines.inner + i;
                   to[(o * lines.size + indices[from]) * lines.inner + i] = x[from];
                 }
             });
}

}  // namespace meshrt
