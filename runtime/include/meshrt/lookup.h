// lookup.h: rows of a table by their numbers, and rows reduced into a table at their numbers: the table may be split by
// rows over ranks. A number that is no row of any rank, -1, reads zeros and changes nothing.
#pragma once
#include <cstdint>
#include <limits>

namespace meshrt {

/// A table [rows, width] of which this rank holds rows [begin, end). Rows lie `table_row` apart, those that are read or
/// written by number `result_row` apart; 0 means `width`.
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
      for (int64_t c = 0; c < width; ++c) to[c] = T(0);
      continue;
    }
    const T* from = table + (id - lookup.begin) * table_row;
    for (int64_t c = 0; c < width; ++c) to[c] = from[c];
  }
}

/// table[ids[i]] = combine(table[ids[i]], rows[i]), for the rows that this rank holds, in the order of i.
template <class T, class Index, class Combine>
void scatter(const Lookup& lookup, T* table, const Index* ids, int64_t count, const T* rows, const Combine& combine) {
  const int64_t width = lookup.width, table_row = lookup.table_row ? lookup.table_row : width;
  const int64_t result_row = lookup.result_row ? lookup.result_row : width;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = static_cast<int64_t>(ids[i]);
    if (id < lookup.begin || id >= lookup.end) continue;
    T* __restrict to = table + (id - lookup.begin) * table_row;
    const T* from = rows + i * result_row;
    for (int64_t c = 0; c < width; ++c) to[c] = combine(to[c], from[c]);
  }
}

/// table[ids[i]] += rows[i]. The caller clears the table first where it should not accumulate.
template <class T, class Index>
void scatter_add(const Lookup& lookup, T* table, const Index* ids, int64_t count, const T* rows) {
  scatter(lookup, table, ids, count, rows, [](T a, T b) { return static_cast<T>(a + b); });
}

/// table[ids[i]] = the larger of it and rows[i]; a NaN never wins. The caller fills the table with `least` first.
template <class T, class Index>
void scatter_max(const Lookup& lookup, T* table, const Index* ids, int64_t count, const T* rows) {
  scatter(lookup, table, ids, count, rows, [](T a, T b) { return a < b ? b : a; });
}

/// What every value of the type is at least.
template <class T>
constexpr T least() {
  if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
  else return std::numeric_limits<T>::lowest();
}

}  // namespace meshrt
