// epilogue.h: what follows a product (scale, bias, activation, gate, residual), on a tile that has just been stored.
#pragma once
#include "meshrt/activation.h"
#include "meshrt/gemm.h"
#include "simd.h"

namespace meshrt::MESHRT_ISA {

template <class T>
inline bool is_plain(const Epilogue<T>& f) {
  return f.scale == 1 && !f.bias && !f.slope && f.activation == Activation::none && !f.times && !f.plus;
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

// c [rows, cols] at row i, column j of the product's result. Not where it is called: with the columns of a tile known,
// gcc writes out all turns of these loops before it could make vectors of them, and an activation takes ten times as
// long.
template <class T>
[[gnu::noipa]] void epilogue_tile(const Epilogue<T>& f, T* c, int64_t c_row, int64_t i, int64_t j, int64_t rows,
                                  int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = (i + r) * c_row + j;
    T* __restrict row = c + at;
    if (f.scale != 1)
      for (int64_t x = 0; x < cols; ++x) row[x] *= f.scale;
    if (f.bias)
      for (int64_t x = 0; x < cols; ++x) row[x] += f.bias[j + x];
    activate_row(f.activation, row, f.slope ? f.slope + at : nullptr, cols);
    if (f.times)
      for (int64_t x = 0; x < cols; ++x) row[x] *= f.times[at + x];
    if (f.plus)
      for (int64_t x = 0; x < cols; ++x) row[x] += f.plus[at + x];
  }
}

}  // namespace meshrt::MESHRT_ISA
