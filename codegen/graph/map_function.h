// map_function.h: the elementwise functions. One row a function in map_function.cpp says all there is: name in specs
// and dumps, operands, result type, how it is written in C++ (its derivative: ops/map.cpp).
// Casts are a function a target type.
#pragma once
#include <cstdint>
#include <string_view>

namespace mesh {

enum class MapFunction : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  power,
  minimum,
  maximum,
  remainder,  // (a, b)
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,   // (a, b) -> bool
  logical_not,  // bool -> bool
  negate,
  exp,
  log,
  sqrt,
  rsqrt,
  tanh,
  sigmoid,
  relu,
  gelu,
  gelu_tanh,
  silu,
  erf,
  sin,
  cos,
  abs,
  floor,
  round,
  sign,
  log1p,
  expm1,
  softplus,
  square,
  reciprocal,  // (a)
  gelu_slope,
  gelu_tanh_slope,
  silu_slope,  // derivatives that are cheaper whole
  round_bf16,  // (a, u) -> a to one of its neighbours in bf16, the upper one where u in [0, 1) says so
  round_f16,   // the same in f16
  unscale,     // (a, b) -> a * b, which whoever reads it multiplies anew: of a gradient, which is large
  where,       // (condition, a, b)
  cast,        // (a) -> the result's element type
  cast_part,   // the same of a part of a sum over ranks, which is added up in that type
  copy,        // (a): used for stop_gradient
};

struct MapFunctionInfo {
  MapFunction function;
  std::string_view name;  // "add" in dumps; functions that specs call have the spec's name
  int operands;
  bool to_boolean;
  bool cheap;    // recomputing costs less than reading the result from memory
  double flops;  // an element
  /// C++ with $0, $1, $2 for the operands: "$0 + $1", "meshrt::exp($0)"
  std::string_view cpp;
};
const MapFunctionInfo& info(MapFunction);

/// Whether the result's element type is what the function is about.
inline bool is_cast(MapFunction function) {
  return function == MapFunction::cast || function == MapFunction::cast_part;
}

}  // namespace mesh
