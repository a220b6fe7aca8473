// rate.h: learning-rate schedules at step t = 1, 2, ...: all rise as peak * t / warmup up to step `warmup`; without
// warm-up (0) they start at the peak.
#pragma once
#include <cstdint>

#include "meshrt/math.h"

namespace meshrt {

/// After warm-up the rate itself.
inline double constant(double rate, double warmup, int64_t t) {
  const auto now = static_cast<double>(t);
  return now < warmup ? rate * now / warmup : rate;
}

namespace detail {
// How much of the way from the end of warm-up to `steps` has been gone: 0 .. 1.
inline double progress(double warmup, double steps, double t) {
  if (t >= steps) return 1;
  return (t - warmup) / (steps - warmup);
}
}  // namespace detail

/// After warm-up floor + (peak - floor) * (1 + cos(pi * (t - warmup) / (steps - warmup))) / 2; the floor from `steps`
/// on.
inline double cosine(double peak, double warmup, double steps, double floor, int64_t t) {
  const auto now = static_cast<double>(t);
  if (now < warmup) return peak * now / warmup;
  constexpr double pi = 3.141592653589793;
  return floor + (peak - floor) * (1 + cos(pi * detail::progress(warmup, steps, now))) / 2;
}

/// After warm-up a straight line from the peak to the floor, reached at `steps`.
inline double linear(double peak, double warmup, double steps, double floor, int64_t t) {
  const auto now = static_cast<double>(t);
  if (now < warmup) return peak * now / warmup;
  return peak + (floor - peak) * detail::progress(warmup, steps, now);
}

/// After warm-up peak * sqrt(warmup / t); a warm-up below 1 counts as 1.
inline double inverse_sqrt(double peak, double warmup, int64_t t) {
  const auto now = static_cast<double>(t);
  if (now < warmup) return peak * now / warmup;
  return peak * sqrt((warmup < 1 ? 1 : warmup) / now);
}

/// After warm-up the peak for `every` steps, and after each `every` more of them `factor` times as much, `times` times
/// at most (0: without end).
inline double stepped(double peak, double warmup, double every, double factor, double times, int64_t t) {
  const auto now = static_cast<double>(t);
  if (now < warmup) return peak * now / warmup;
  double falls = floor((now - (warmup < 1 ? 1 : warmup)) / every);
  if (times > 0 && falls > times) falls = times;
  double rate = peak;
  for (auto left = static_cast<uint64_t>(falls); left > 0; left /= 2, factor *= factor)
    if (left % 2 == 1) rate *= factor;
  return rate;
}

/// The peak for `hold` steps, then peak * sqrt(hold / t): without a rise.
inline double held_inverse_sqrt(double peak, double hold, int64_t t) {
  const auto now = static_cast<double>(t);
  return now <= hold ? peak : peak * sqrt(hold / now);
}

}  // namespace meshrt
