// activation.h: the functions between the layers of a network, and their derivatives.
#pragma once
#include "meshrt/math.h"

namespace meshrt {

/// max(x, 0)
template <class T>
MESHRT_INLINE T relu(T x) {
  if constexpr (std::is_integral_v<T>) return maximum(x, T(0));
  else return detail::select(x < 0, T(0), x);
}

/// log(1 + e^x), which is x where e^x is large
template <class T>
MESHRT_INLINE T softplus(T x) {
  return relu(x) + log1p(exp(-abs(x)));
}

/// x sigmoid(x)
template <class T>
MESHRT_INLINE T silu(T x) {
  return x * sigmoid(x);
}
namespace detail {

// sigmoid(x) and 1 - sigmoid(x), neither by a difference.
template <class T>
struct Gate {
  T open, shut;
};
template <class T>
MESHRT_INLINE Gate<T> gate(T x) {
  const T e = exp(-abs(x)), high = 1 / (1 + e), low = e * high;
  return {select(x < 0, low, high), select(x < 0, high, low)};
}

}  // namespace detail

/// The derivative of silu at x.
template <class T>
MESHRT_INLINE T silu_slope(T x) {
  const auto [open, shut] = detail::gate(x);
  return open * detail::fma(x, shut, T(1));
}

namespace detail {

// Phi(x), the normal distribution, through the tail on x's own side; bell = e^(-x^2 / 2).
template <class T>
struct Normal {
  T below, bell;
};
template <class T>
MESHRT_INLINE Normal<T> normal_distribution(T x) {
  const T bell = exp(x * x * T(-0.5)), tail = T(0.5) * bell * scaled_complement(abs(x) * T(0x1.6a09e667f3bcdp-1));
  return {select(x < 0, tail, 1 - tail), bell};
}

// 2 u, u = sqrt(2/pi) (x + 0.044715 x^3): (1 + tanh(u)) / 2 = sigmoid(2 u)
template <class T>
MESHRT_INLINE T gelu_tanh_argument(T x) {
  return x * fma(x * x, T(2 * 0.7978845608028654 * 0.044715), T(2 * 0.7978845608028654));
}

}  // namespace detail

/// x Phi(x), exact
template <class T>
MESHRT_INLINE T gelu(T x) {
  return x * detail::normal_distribution(x).below;
}
/// The derivative of gelu at x: Phi(x) + x phi(x).
template <class T>
MESHRT_INLINE T gelu_slope(T x) {
  const auto [below, bell] = detail::normal_distribution(x);
  return detail::fma(x * bell, T(0.3989422804014327), below);
}

/// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
template <class T>
MESHRT_INLINE T gelu_tanh(T x) {
  return x * detail::gate(detail::gelu_tanh_argument(x)).open;
}
/// The derivative of gelu_tanh at x.
template <class T>
MESHRT_INLINE T gelu_tanh_slope(T x) {
  const auto [open, shut] = detail::gate(detail::gelu_tanh_argument(x));
  const T slope = detail::fma(x * x, T(6 * 0.7978845608028654 * 0.044715), T(2 * 0.7978845608028654));
  return detail::fma(x * open * shut, slope, open);
}

}  // namespace meshrt
