// activation.h: the functions between the layers of a network, and their derivatives. Included by math.h.
#pragma once
#include "meshrt/math.h"

namespace meshrt {

/// max(x, 0)
template <class T>
MESHRT_INLINE T relu(T x) {
  return detail::select(x < 0, T(0), x);
}

/// x sigmoid(x)
template <class T>
MESHRT_INLINE T silu(T x) {
  return x * sigmoid(x);
}
/// The derivative of silu at x.
template <class T>
MESHRT_INLINE T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (1 + x * (1 - s));
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

// sigmoid(2 u) and du/dx of u = sqrt(2/pi) (x + 0.044715 x^3)
template <class T>
MESHRT_INLINE T gelu_tanh_gate(T x) {
  return sigmoid(x * fma(x * x, T(2 * 0.7978845608028654 * 0.044715), T(2 * 0.7978845608028654)));
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
  return x * detail::gelu_tanh_gate(x);
}
/// The derivative of gelu_tanh at x.
template <class T>
MESHRT_INLINE T gelu_tanh_slope(T x) {
  const T s = detail::gelu_tanh_gate(x);
  const T du = detail::fma(x * x, T(6 * 0.7978845608028654 * 0.044715), T(2 * 0.7978845608028654));
  return detail::fma(x * s * (1 - s), du, s);
}

}  // namespace meshrt
