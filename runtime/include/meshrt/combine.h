// combine.h: sums of weighted rows of a table at their numbers, and their gradients: what experts give, back to tokens.
#pragma once
#include <algorithm>
#include <cstdint>

#include "meshrt/lanes.h"
#include "meshrt/lookup.h"
#include "meshrt/threads.h"

namespace meshrt {

/// [groups] tables [rows, width], of which this rank holds rows [begin, end); in each group tokens with some choices of
/// rows. A choice of a row that the rank does not hold, or of none (-1), counts nothing.
struct Combining {
  int64_t groups, tokens, choices, width;
  int64_t begin, end;
  int64_t rows() const { return end - begin; }
};

namespace detail {

/// visit(token, choice, row) for every choice of tokens [first, last) of a group of a row that is here: all three
/// counted over all groups.
template <class Visit>
MESHRT_INLINE void each_choice(const Combining& c, const int32_t* ids, int64_t group, int64_t first, int64_t last,
                               const Visit& visit) {
  for (int64_t token = group * c.tokens + first; token < group * c.tokens + last; ++token)
    for (int64_t choice = token * c.choices; choice < (token + 1) * c.choices; ++choice)
      if (const int64_t id = ids[choice]; id >= c.begin && id < c.end)
        visit(token, choice, group * c.rows() + id - c.begin);
}

/// piece(group, first, last) for stretches of tokens, none of which writes what is another token's.
template <class Piece>
void share_tokens(const Combining& c, const Piece& piece) {
  share_each(c.groups, c.tokens, enough(c.choices * c.width / moved_elements), piece);
}

}  // namespace detail

/// out [groups, tokens, width] = the sum over choices of weight [groups, tokens, choices] * table[ids].
template <class T>
void combine(const Combining& c, const T* table, const int32_t* ids, const T* weight, T* out) {
  detail::share_tokens(c, [&](int64_t group, int64_t first, int64_t last) {
    std::fill_n(out + (group * c.tokens + first) * c.width, (last - first) * c.width, T(0));
    detail::each_choice(c, ids, group, first, last, [&](int64_t token, int64_t choice, int64_t row) {
      const T times = weight[choice];
      const T* from = table + row * c.width;
      T* __restrict to = out + token * c.width;
      for (int64_t i = 0; i < c.width; ++i) to[i] += times * from[i];
    });
  });
}

/// d_table[ids] += weight * d, from zero.
template <class T>
void combine_d_table(const Combining& c, const int32_t* ids, const T* weight, const T* d, T* d_table) {
  fill(d_table, c.groups * c.rows() * c.width, T(0));
  share_rows(c.groups, c.tokens * c.choices, c.width, [&](int64_t group, const OwnRows& own) {
    detail::each_choice(c, ids, group, 0, c.tokens, [&](int64_t token, int64_t choice, int64_t row) {
      if (!own.has(row)) return;
      const T times = weight[choice];
      const T* from = d + token * c.width;
      T* __restrict to = d_table + row * c.width;
      for (int64_t i = 0; i < c.width; ++i) to[i] += times * from[i];
    });
  });
}

/// d_weight = the product of table[ids] and d, summed along the rows.
template <class T>
void combine_d_weight(const Combining& c, const T* table, const int32_t* ids, const T* d, T* d_weight) {
  detail::share_tokens(c, [&](int64_t group, int64_t first, int64_t last) {
    std::fill_n(d_weight + (group * c.tokens + first) * c.choices, (last - first) * c.choices, T(0));
    detail::each_choice(c, ids, group, first, last, [&](int64_t token, int64_t choice, int64_t row) {
      const T *a = table + row * c.width, *b = d + token * c.width;
      d_weight[choice] = sum_of<T>(c.width, [&](int64_t i) { return a[i] * b[i]; });
    });
  });
}

}  // namespace meshrt
