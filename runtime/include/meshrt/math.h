// math.h: elementary functions that give the same bits on every host: branch-free polynomials of fused multiply-adds that
// a compiler vectorises in a plain loop. f32 within 2 units in the last place, f64 within 4, over the whole range.
#pragma once

namespace meshrt {

template <class T> T exp(T x);
template <class T> T log(T x);
template <class T> T tanh(T x);
template <class T> T erf(T x);
template <class T> T sin(T x);
template <class T> T cos(T x);
template <class T> T pow(T x, T y);

}  // namespace meshrt
