// epilogue.h: what follows a product (scale, bias, activation, gate, residual), on a tile that has just been stored.
#pragma once
#include "meshrt/activation.h"
#include "meshrt/gemm.h"
#include "multiplicand.h"
#include "simd.h"

namespace meshrt::MESHRT_ISA {

template <class T>
inline bool is_plain(const Epilogue<T>& f) {
  return f.scale == 1 && !f.bias && !f.slope && f.activation == Activation::none && !f.times && !f.plus && !f.rounded;
}

// c [cols] of one row: value = activation(c), and its slope where it is wanted.
template <class T, class Value, class Slope>
MESHRT_INLINE void activate(T* __restrict c, T* __restrict slope, int64_t cols, Value value, Slope slope_of) {
  if (slope)
    for (int64_t j = 0; j < cols; ++j) {
      const T x = c[j];
      slope[j] = slope_of(x);
      c[j] = value(x);
    }
  else
    for (int64_t j = 0; j < cols; ++j) c[j] = value(c[j]);
}

template <class T>
inline void activate_row(Activation activation, T* c, T* slope, int64_t cols) {
  using namespace detail;
  switch (activation) {
    case Activation::none:
      if (slope)
        for (int64_t j = 0; j < cols; ++j) slope[j] = 1;
      break;
    case Activation::relu:
      activate(
          c, slope, cols, [](T x) { return relu(x); }, [](T x) { return select(x > 0, T(1), T(0)); });
      break;
    case Activation::gelu:
      activate(
          c, slope, cols, [](T x) { return gelu(x); }, [](T x) { return gelu_slope(x); });
      break;
    case Activation::gelu_tanh:
      activate(
          c, slope, cols, [](T x) { return gelu_tanh(x); }, [](T x) { return gelu_tanh_slope(x); });
      break;
    case Activation::silu:
      activate(
          c, slope, cols, [](T x) { return silu(x); }, [](T x) { return silu_slope(x); });
      break;
  }
}

// One row of c [cols] = (c scale + bias) times + plus; what is null is left out.
template <class T>
MESHRT_INLINE void linear_row(T* row, T scale, const T* bias, const T* times, const T* plus, int64_t cols) {
  constexpr int n = lanes<T>;
  int64_t x = 0;
  for (; x + n <= cols; x += n) {
    Vector<T> value = load(row + x);
    if (scale != 1) value *= scale;
    if (bias) value += load(bias + x);
    if (times) value *= load(times + x);
    if (plus) value += load(plus + x);
    store(row + x, value);
  }
  for (; x < cols; ++x) {
    if (scale != 1) row[x] *= scale;
    if (bias) row[x] += bias[x];
    if (times) row[x] *= times[x];
    if (plus) row[x] += plus[x];
  }
}

// rounded [cols] = c of one row.
template <class T>
MESHRT_INLINE void round_row(const T* __restrict row, Bfloat16* __restrict rounded, int64_t cols) {
  int64_t x = 0;
  if constexpr (std::is_same_v<T, float>) {
    constexpr int n = lanes<float>;
#if defined(__AVX512BF16__)
    for (; x + 2 * n <= cols; x += 2 * n)
      store_bits(rounded + x, rounded_pairs_along(load(row + x), load(row + x + n)));
#endif
    for (; x + n <= cols; x += n)
      store_bits(rounded + x, __builtin_convertvector(rounded_bits(load(row + x)) >> 16, Halves));
  }
  for (; x < cols; ++x) rounded[x] = Bfloat16(static_cast<float>(row[x]));
}

// A tile [rows, cols] of the product's result, whose sums lie at c, c_row apart. Its first element is the `at`-th of
// what lies like the result, rows like_row apart, and in column j. Not where it is called: with the columns of a tile
// known, gcc writes out all turns of these loops before it could make vectors of them, and an activation takes ten
// times as long.
template <class T>
[[gnu::noipa]] void epilogue_apart(const Epilogue<T>& f, T* c, int64_t c_row, int64_t at, int64_t like_row, int64_t j,
                                   int64_t rows, int64_t cols) {
  const T* const bias = f.bias ? f.bias + j : nullptr;
  for (int64_t r = 0; r < rows; ++r, c += c_row, at += like_row) {
    const T* const times = f.times ? f.times + at : nullptr;
    const T* const plus = f.plus ? f.plus + at : nullptr;
    if (f.activation == Activation::none && !f.slope) {
      if (f.scale != 1 || bias || times || plus) linear_row(c, f.scale, bias, times, plus, cols);
    } else {
      if (f.scale != 1 || bias) linear_row<T>(c, f.scale, bias, nullptr, nullptr, cols);
      activate_row(f.activation, c, f.slope ? f.slope + at : nullptr, cols);
      if (times || plus) linear_row<T>(c, 1, nullptr, times, plus, cols);
    }
    if (f.rounded) round_row(c, f.rounded + at, cols);
  }
}

// The same of a tile that lies in the result, at row i, column j.
template <class T>
inline void epilogue_tile(const Epilogue<T>& f, T* c, int64_t c_row, int64_t i, int64_t j, int64_t rows, int64_t cols) {
  const int64_t at = i * c_row + j;
  epilogue_apart(f, c + at, c_row, at, c_row, j, rows, cols);
}

}  // namespace meshrt::MESHRT_ISA
