#include "codegen/graph/map_function.h"

#include <iterator>

namespace mesh {

const MapFunctionInfo& info(MapFunction function) {
  using F = MapFunction;
  // function, name, operands, to boolean, cheap, flops, C++
  static constexpr MapFunctionInfo table[] = {
      {F::add, "add", 2, false, true, 1, "$0 + $1"},
      {F::subtract, "subtract", 2, false, true, 1, "$0 - $1"},
      {F::multiply, "multiply", 2, false, true, 1, "$0 * $1"},
      {F::divide, "divide", 2, false, true, 1, "$0 / $1"},
      {F::power, "power", 2, false, false, 20, "meshrt::pow($0, $1)"},
      {F::minimum, "minimum", 2, false, true, 1, "meshrt::minimum($0, $1)"},
      {F::maximum, "maximum", 2, false, true, 1, "meshrt::maximum($0, $1)"},
      {F::remainder, "remainder", 2, false, true, 1, "meshrt::remainder($0, $1)"},
      {F::equal, "equal", 2, true, true, 1, "$0 == $1"},
      {F::not_equal, "not_equal", 2, true, true, 1, "$0 != $1"},
      {F::less, "less", 2, true, true, 1, "$0 < $1"},
      {F::less_equal, "less_equal", 2, true, true, 1, "$0 <= $1"},
      {F::greater, "greater", 2, true, true, 1, "$0 > $1"},
      {F::greater_equal, "greater_equal", 2, true, true, 1, "$0 >= $1"},
      {F::logical_and, "and", 2, true, true, 1, "$0 & $1"},
      {F::logical_or, "or", 2, true, true, 1, "$0 | $1"},
      {F::logical_not, "not", 1, true, true, 1, "!$0"},
      {F::negate, "negate", 1, false, true, 1, "-$0"},
      {F::exp, "exp", 1, false, false, 12, "meshrt::exp($0)"},
      {F::log, "log", 1, false, false, 12, "meshrt::log($0)"},
      {F::sqrt, "sqrt", 1, false, false, 4, "meshrt::sqrt($0)"},
      {F::rsqrt, "rsqrt", 1, false, false, 5, "meshrt::rsqrt($0)"},
      {F::tanh, "tanh", 1, false, false, 16, "meshrt::tanh($0)"},
      {F::sigmoid, "sigmoid", 1, false, false, 14, "meshrt::sigmoid($0)"},
      {F::relu, "relu", 1, false, true, 1, "meshrt::relu($0)"},
      {F::gelu, "gelu", 1, false, false, 20, "meshrt::gelu($0)"},
      {F::gelu_tanh, "gelu_tanh", 1, false, false, 20, "meshrt::gelu_tanh($0)"},
      {F::silu, "silu", 1, false, false, 15, "meshrt::silu($0)"},
      {F::erf, "erf", 1, false, false, 16, "meshrt::erf($0)"},
      {F::sin, "sin", 1, false, false, 16, "meshrt::sin($0)"},
      {F::cos, "cos", 1, false, false, 16, "meshrt::cos($0)"},
      {F::abs, "abs", 1, false, true, 1, "meshrt::abs($0)"},
      {F::floor, "floor", 1, false, true, 1, "meshrt::floor($0)"},
      {F::round, "round", 1, false, true, 1, "meshrt::round($0)"},
      {F::sign, "sign", 1, false, true, 2, "meshrt::sign($0)"},
      {F::log1p, "log1p", 1, false, false, 16, "meshrt::log1p($0)"},
      {F::expm1, "expm1", 1, false, false, 14, "meshrt::expm1($0)"},
      {F::softplus, "softplus", 1, false, false, 30, "meshrt::softplus($0)"},
      {F::square, "square", 1, false, true, 1, "meshrt::square($0)"},
      {F::reciprocal, "reciprocal", 1, false, true, 4, "1 / $0"},
      {F::gelu_slope, "gelu_slope", 1, false, false, 25, "meshrt::gelu_slope($0)"},
      {F::gelu_tanh_slope, "gelu_tanh_slope", 1, false, false, 25, "meshrt::gelu_tanh_slope($0)"},
      {F::silu_slope, "silu_slope", 1, false, false, 18, "meshrt::silu_slope($0)"},
      {F::round_bf16, "round_bf16", 2, false, true, 4, "meshrt::round_bf16($0, $1)"},
      {F::round_f16, "round_f16", 2, false, true, 8, "meshrt::round_f16($0, $1)"},
      {F::unscale, "unscale", 2, false, true, 1, "$0 * $1"},
      {F::where, "where", 3, false, true, 1, "$0 ? $1 : $2"},
      {F::cast, "cast", 1, false, true, 0, "static_cast<$type>($0)"},
      {F::cast_part, "cast_part", 1, false, true, 0, "static_cast<$type>($0)"},
      {F::copy, "copy", 1, false, true, 0, "$0"},
  };
  static_assert(std::size(table) == static_cast<size_t>(F::copy) + 1);
  return table[static_cast<size_t>(function)];
}

}  // namespace mesh
