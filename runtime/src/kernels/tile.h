// tile.h: the register tile from which products and attention are built.
#pragma once
#include "multiplicand.h"
#include "simd.h"

namespace meshrt::MESHRT_ISA {

inline constexpr int line_bytes = 64;  // of the cache

// The tile of few rows and narrow operands is tile_rows x tile_vectors; that of others: with AVX-512 24 of the 32
// registers accumulate, four registers wide and not high, because a row costs an instruction that a register of b does
// not: where another thread runs on the same core, instructions are what is short.
inline constexpr int rows_of_tile = vector_bytes == 64 ? 6 : tile_rows,
                     vectors_of_tile = vector_bytes == 64 ? 4 : tile_vectors;
template <class T>
inline constexpr int tile_cols = tile_vectors* lanes<T>;
template <class T>
inline constexpr int cols_of_tile = vectors_of_tile* lanes<T>;

// A row that tiles read beside others begins so much further than it is long, lest all of them meet in one set of the
// cache.
template <class M>
inline constexpr int64_t apart_by = line_bytes / int64_t(sizeof(M));

// The left operand of a tile, where it lies: element (r, k) at at[r * row + k * col].
template <class T>
struct Left {
  const T* at;
  int64_t row, col;
};

// Arrays whose elements at the places of a tile are wanted when it is whole, up to a null, and one of half as many
// bytes; their rows lie `row` elements apart.
template <class T>
struct Beside {
  const T* at[4] = {};
  const Bfloat16* rounded = nullptr;
  int64_t row = 0;
};

// Fetches what lies at the places of a tile.
template <class T, int R = tile_rows, int V = tile_vectors, class Stored = T>
MESHRT_INLINE void fetch_tile(const Stored* c, int64_t c_row) {
  constexpr int lines = (V * lanes<T> * int(sizeof(Stored)) + line_bytes - 1) / line_bytes;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int l = 0; l < lines; ++l) __builtin_prefetch(c + r * c_row + l * (line_bytes / int(sizeof(Stored))));
}

// Steps before the end of a tile's sum at which c, and what is wanted beside it, are brought into the first-level
// cache: some two thousand multiplications before they are wanted, as long as memory takes to answer, but after most of
// b has passed through that cache.
template <int R, int V>
inline constexpr int64_t ending_steps = 2048 / (R * V);

// A number that the compiler knows.
template <int64_t number>
struct Constant {
  MESHRT_INLINE constexpr operator int64_t() const { return number; }
};

// What a tile does with each step of b beside adding it up: nothing,
struct LeftAlone {
  template <class M, class B, int V>
  MESHRT_INLINE void step(const B*, int64_t, const Vector<M> (&)[V]) {}
};

// or it brings what lies so many elements behind it into the second-level cache,
struct FetchesAhead {
  int64_t ahead;

  template <class M, class B, int V>
  MESHRT_INLINE void step(const B* b, int64_t b_row, const Vector<M> (&)[V]) {
    constexpr int lines = V * lanes<M> * int(sizeof(B)) / line_bytes;
#pragma GCC unroll 2
    for (int i = 0; i < rows_of_step<M, B>; ++i)
#pragma GCC unroll 8
      for (int l = 0; l < lines; ++l)
        __builtin_prefetch(b + i * b_row + ahead + l * (line_bytes / int(sizeof(B))), 0, 2);
  }
};

// or stores its multiplicands one step behind the other, as the next tiles read them.
template <class Packed>
struct Packs {
  Packed* to;

  template <class M, class B, int V>
  MESHRT_INLINE void step(const B*, int64_t, const Vector<M> (&line)[V]) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(to + v * lanes<M>, line[v]);
    to += V * lanes<M>;
  }
};

// c [R, V registers] (+)= a · b over `inner` multiplicands of type M (multiplicand.h), held in registers; rows of b lie
// b_row apart, rows of c c_row apart. b has multiplicands, or what becomes them as it is read. What is wanted `beside`
// the tile is fetched before it is whole. What happens to b as it passes by, `passing` says.
template <class T, int R, int V = tile_vectors, class M = T, class B = M, class Passing = LeftAlone>
[[gnu::noinline]] void tile(int64_t inner, const Left<M>& left, const B* b, int64_t b_row, T* c, int64_t c_row,
                            bool accumulate, const Beside<T>* beside = nullptr, Passing passing = {}) {
  constexpr int n = lanes<T>, high = rows_of_step<M, B>;
  const Left<M> a = left;  // which no store of this tile can change
  Vector<T> sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = Vector<T>{};
  if (accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = load(c + r * c_row + v * n);
  }
  // One pointer for four rows: the address of a row is then pointer + {0, 1, 2, 3} * row, which costs nothing.
  const M* rows[(R + 3) / 4];
#pragma GCC unroll 4
  for (int r = 0; r < R; r += 4) rows[r / 4] = a.at + r * a.row;
  const auto add_up = [&](auto col_of_a, auto row_of_b) __attribute__((always_inline)) {
    int64_t k = 0;
    for (int part = 0; part < 3; ++part) {
      const int64_t end = inner - (2 - part) * ending_steps<R, V>;
      if (part == 1 && beside) {
        for (const T* const* at = beside->at; *at; ++at) fetch_tile<T, R, V>(*at, beside->row);
        if (beside->rounded) fetch_tile<T, R, V>(beside->rounded, beside->row);
      }
      if (part == 2) fetch_tile<T, R, V>(c, c_row);
#pragma GCC unroll 4
      for (; k < end; ++k, b += high * row_of_b) {
        Vector<M> line[V];
        load_step<M>(b, row_of_b, line);
        passing.template step<M>(b, row_of_b, line);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const Vector<M> x = splat(read_as<M>(rows[r / 4] + (r % 4) * a.row));
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) sum[r][v] = fma(x, line[v], sum[r][v]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; r += 4) rows[r / 4] += col_of_a;
      }
    }
  };
  // Where these are constants, as they mostly are, addresses cost no instructions of their own.
  if (a.col == 1 && b_row == V * n) add_up(Constant<1>(), Constant<V * n>());
  else add_up(a.col, b_row);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(c + r * c_row + v * n, sum[r][v]);
}

// The same for a number of rows known only now, 1 .. R.
template <class T, int R = tile_rows, int V = tile_vectors, class M = T, class B = M, class Passing = LeftAlone>
inline void tile_of(int64_t rows, int64_t inner, const Left<M>& a, const B* b, int64_t b_row, T* c, int64_t c_row,
                    bool accumulate, const Beside<T>* beside = nullptr, Passing passing = {}) {
  if (rows == R) return tile<T, R, V>(inner, a, b, b_row, c, c_row, accumulate, beside, passing);
  if constexpr (R > 1) tile_of<T, R - 1, V>(rows, inner, a, b, b_row, c, c_row, accumulate, beside, passing);
}

}  // namespace meshrt::MESHRT_ISA
