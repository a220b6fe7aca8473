// lookup.h: rows of a table by their numbers, and rows reduced into a table at their numbers: the table may be split by
// rows over ranks. A number that is no row of any rank, -1, reads zeros and changes nothing.
#pragma once
#include <cstdint>
#include <limits>

#include "meshrt/threads.h"

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
  share(count, enough(width / moved_elements), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t id = static_cast<int64_t>(ids[i]);
      T* __restrict to = result + i * result_row;
      if (id < lookup.begin || id >= lookup.end) {
        for (int64_t c = 0; c < width; ++c) to[c] = T(0);
        continue;
      }
      const T* from = table + (id - lookup.begin) * table_row;
      for (int64_t c = 0; c < width; ++c) to[c] = from[c];
    }
  });
}

/// Rows of a table that a thread has for itself: those whose number modulo `classes` is in a range. Rows that are used
/// often tend to be neighbours.
struct OwnRows {
  static constexpr int64_t classes = 64;
  int64_t begin, end;
  bool has(int64_t row) const { return row % classes >= begin && row % classes < end; }
};

/// piece(o, own) for each o below `outer`, where `count` rows of `width` are added to rows of a table: once for every
/// row of the table, so that what is added to it follows in the order of one thread.
template <class Piece>
void share_rows(int64_t outer, int64_t count, int64_t width, const Piece& piece) {
  constexpr int64_t least_width = 16;  // every thread looks at every number: narrower rows are added as fast as that
  const OwnRows all{0, OwnRows::classes};
  if (width < least_width) {
    for (int64_t o = 0; o < outer; ++o) piece(o, all);
    return;
  }
  const int64_t in_a_class = count * width / moved_elements / OwnRows::classes;
  share_each(outer, OwnRows::classes, enough(in_a_class), [&](int64_t o, int64_t begin, int64_t end) {
    piece(o, OwnRows{begin, end});
  });
}

/// table[ids[i]] = combine(table[ids[i]], rows[i]), for the rows that this rank holds, in the order of i.
template <class T, class Index, class Combine>
void scatter(const Lookup& lookup, T* table, const Index* ids, int64_t count, const T* rows, const Combine& combine) {
  const int64_t width = lookup.width, table_row = lookup.table_row ? lookup.table_row : width;
  const int64_t result_row = lookup.result_row ? lookup.result_row : width;
  share_rows(1, count, width, [&](int64_t, const OwnRows& own) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = static_cast<int64_t>(ids[i]) - lookup.begin;
      if (row < 0 || row >= lookup.end - lookup.begin || !own.has(row)) continue;
      T* __restrict to = table + row * table_row;
      const T* from = rows + i * result_row;
      for (int64_t c = 0; c < width; ++c) to[c] = combine(to[c], from[c]);
    }
  });
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
