// combine.h: sums of weighted rows of a table at their numbers, and their gradients: what experts give, back to tokens.
#pragma once
#include <algorithm>
#include <cstdint>

#include "meshrt/lanes.h"

namespace meshrt {

/// [groups] tables [rows, width], of which this rank holds rows [begin, end); in each group tokens with some choices of
/// rows. A choice of a row that the rank does not hold, or of none (-1), counts nothing.
struct Combining {
  int64_t groups, tokens, choices, width;
  int64_t begin, end;
  int64_t rows() const { return end - begin; }
};

namespace detail {

/// visit(token, choice, row) for every choice of a row that is here: counted over all groups.
template <class Visit>
MESHRT_INLINE void each_choice(const Combining& c, const int32_t* ids, const Visit& visit) {
  for (int64_t group = 0; group < c.groups; ++group)
    for (int64_t token = group * c.tokens; token < (group + 1) * c.tokens; ++token)
      for (int64_t choice = token * c.choices; choice < (token + 1) * c.choices; ++choice)
        if (const int64_t id = ids[choice]; id >= c.begin && id < c.end)
          visit(token, choice, group * c.rows() + id - c.begin);
}

}  // namespace detail

/// out [groups, tokens, width] = the sum over choices of weight [groups, tokens, choices] * table[ids].
template <class T>
void combine(const Combining& c, const T* table, const int32_t* ids, const T* weight, T* out) {
  std::fill_n(out, c.groups * c.tokens * c.width, T(0));
  detail::each_choice(c, ids, [&](int64_t token, int64_t choice, int64_t row) {
    const T times = weight[choice];
    const T* from = table + row * c.width;
    T* __restrict to = out + token * c.width;
    for (int64_t i = 0; i < c.width; ++i) to[i] += times * from[i];
  });
}

/// d_table[ids] += weight * d, from zero.
template <class T>
void combine_d_table(const Combining& c, const int32_t* ids, const T* weight, const T* d, T* d_table) {
  std::fill_n(d_table, c.groups * c.rows() * c.width, T(0));
  detail::each_choice(c, ids, [&](int64_t token, int64_t choice, int64_t row) {
    const T times = weight[choice];
    const T* from = d + token * c.width;
    T* __restrict to = d_table + row * c.width;
    for (int64_t i = 0; i < c.width; ++i) to[i] += times * from[i];
  });
}

/// d_weight = the product of table[ids] and d, summed along the rows.
template <class T>
void combine_d_weight(const Combining& c, const T* table, const int32_t* ids, const T* d, T* d_weight) {
  std::fill_n(d_weight, c.groups * c.tokens * c.choices, T(0));
  detail::each_choice(c, ids, [&](int64_t token, int64_t choice, int64_t row) {
    const T *a = table + row * c.width, *b = d + token * c.width;
    d_weight[choice] = sum_of<T>(c.width, [&](int64_t i) { return a[i] * b[i]; });
  });
}

}  // namespace meshrt
