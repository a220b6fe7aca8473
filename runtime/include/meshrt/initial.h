// initial.h: how a stored tensor begins.
#pragma once

namespace meshrt {

/// Numbers depend only on (seed, path, global index): the same for every layout.
struct Initial {
  enum class Kind { zeros, ones, constant, normal, truncated_normal, uniform } kind = Kind::zeros;
  double a = 0, b = 0;  ///< constant: a; normal: mean a, standard deviation b; uniform: [a, b)
};

}  // namespace meshrt
