// lookup.h: rows of a table by their numbers, and the gradient of that: the table may be split by rows over ranks.
#pragma once
#include <cstdint>

namespace meshrt {

/// A table [rows, width] of which this rank holds rows [begin, end). Rows lie `table_row` apart, those of the result
/// (or its gradient) `result_row` apart; 0 means `width`.
struct Lookup {
  int64_t begin = 0, end = 0, width = 0;
  int64_t table_row = 0, result_row = 0;
};

/// result [count, width] = table[ids[i]], and zeros where another rank holds the row: the sum over the ranks is the
/// whole result. `table` points to row `begin`.
template <class T, class Index>
void take(const Lookup& lookup, const T* table, const Index* ids, int64_t count, T* result) {
  const int64_t width = lookup.width, table_row = lookup.table_row ? lookup.table_row : width;
  const int64_t result_row = lookup.result_row ? lookup.result_row : width;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = static_cast<int64_t>(ids[i]);
    T* __restrict to = result + i * result_row;
    if (id < lookup.begin || id >= lookup.end) {
      for (int64_t c = 0; c < width; ++c) to[c] = 0;
      continue;
    }
    const T* from = table + (id - lookup.begin) * table_row;
    for (int64_t c = 0; c < width; ++c) to[c] = from[c];
  }
}

/// d_table[ids[i]] += d_result[i], for the rows that this rank holds, in the order of i. The caller clears d_table
/// first where it should not accumulate.
template <class T, class Index>
void take_gradient(const Lookup& lookup, T* d_table, const Index* ids, int64_t count, const T* d_result) {
  const int64_t width = lookup.width, table_row = lookup.table_row ? lookup.table_row : width;
  const int64_t result_row = lookup.result_row ? lookup.result_row : width;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = static_cast<int64_t>(ids[i]);
    if (id < lookup.begin || id >= lookup.end) continue;
    T* __restrict to = d_table + (id - lookup.begin) * table_row;
    const T* from = d_result + i * result_row;
    for (int64_t c = 0; c < width; ++c) to[c] += from[c];
  }
}

}  // namespace meshrt
