// functions.cpp: the loops of functions.h. Compiled once per instruction set: MESH_VARIANT names
// the namespace.
#include "codegen/interpret/functions.h"

#include <cstring>
#include <new>
#include <type_traits>

#include "meshrt/activation.h"
#include "meshrt/bfloat16.h"
#include "meshrt/lanes.h"
#include "meshrt/math.h"

namespace mesh::MESH_VARIANT {
namespace {

using meshrt::Reduce;
using meshrt::Type;

template <class T>
inline constexpr bool is_bool = std::is_same_v<T, bool>;

template <class R, class A, class F>
ChunkFunction unary(F) {
  return [](const void* a, const void*, const void*, void* y, int64_t n) {
    const A* __restrict from = static_cast<const A*>(a);
    R* __restrict to = static_cast<R*>(y);
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(F{}(from[i]));
  };
}

template <class R, class A, class F>
ChunkFunction binary(F) {
  return [](const void* a, const void* b, const void*, void* y, int64_t n) {
    const A* __restrict left = static_cast<const A*>(a);
    const A* __restrict right = static_cast<const A*>(b);
    R* __restrict to = static_cast<R*>(y);
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(F{}(left[i], right[i]));
  };
}

template <class A>
ChunkFunction where_loop() {
  return [](const void* condition, const void* a, const void* b, void* y, int64_t n) {
    const bool* __restrict chosen = static_cast<const bool*>(condition);
    const A* __restrict yes = static_cast<const A*>(a);
    const A* __restrict no = static_cast<const A*>(b);
    A* __restrict to = static_cast<A*>(y);
    for (int64_t i = 0; i < n; ++i) to[i] = chosen[i] ? yes[i] : no[i];
  };
}

template <class A>
ChunkFunction cast_loop(Type result) {
  const auto same = [](A x) { return x; };
  switch (result) {
    case Type::f32: return unary<float, A>(same);
    case Type::f64: return unary<double, A>(same);
    case Type::i32: return unary<int32_t, A>(same);
    case Type::i64: return unary<int64_t, A>(same);
    case Type::u8: return unary<uint8_t, A>(same);
    case Type::boolean: return unary<bool, A>(same);
    default: return nullptr;
  }
}

/// To and from what arithmetic is done in, and one of two; nothing else.
template <class Narrow>
ChunkFunction of_narrow(MapFunction function, Type operand, Type result) {
  if (function == MapFunction::where) return where_loop<Narrow>();
  if (function != MapFunction::cast) return nullptr;
  if (operand == Type::f32) return unary<Narrow, float>([](float x) { return Narrow(x); });
  if (result == Type::f32) return unary<float, Narrow>([](Narrow x) { return float(x); });
  return nullptr;
}

// Functions of every type.
template <class A>
ChunkFunction general(MapFunction function, Type result) {
  switch (function) {
    case MapFunction::equal: return binary<bool, A>([](A a, A b) { return a == b; });
    case MapFunction::not_equal: return binary<bool, A>([](A a, A b) { return a != b; });
    case MapFunction::where: return where_loop<A>();
    case MapFunction::cast: return cast_loop<A>(result);
    case MapFunction::copy: return unary<A, A>([](A a) { return a; });
    default: return nullptr;
  }
}

ChunkFunction logical(MapFunction function) {
  switch (function) {
    case MapFunction::logical_and: return binary<bool, bool>([](bool a, bool b) { return a & b; });
    case MapFunction::logical_or: return binary<bool, bool>([](bool a, bool b) { return a | b; });
    case MapFunction::logical_not: return unary<bool, bool>([](bool a) { return !a; });
    default: return nullptr;
  }
}

// Functions of every number.
template <class A>
ChunkFunction arithmetic(MapFunction function) {
  switch (function) {
    case MapFunction::add: return binary<A, A>([](A a, A b) { return a + b; });
    case MapFunction::subtract: return binary<A, A>([](A a, A b) { return a - b; });
    case MapFunction::multiply:
    case MapFunction::unscale: return binary<A, A>([](A a, A b) { return a * b; });
    case MapFunction::divide: return binary<A, A>([](A a, A b) { return a / b; });
    case MapFunction::minimum: return binary<A, A>([](A a, A b) { return meshrt::minimum(a, b); });
    case MapFunction::maximum: return binary<A, A>([](A a, A b) { return meshrt::maximum(a, b); });
    case MapFunction::remainder: return binary<A, A>([](A a, A b) { return meshrt::remainder(a, b); });
    case MapFunction::less: return binary<bool, A>([](A a, A b) { return a < b; });
    case MapFunction::less_equal: return binary<bool, A>([](A a, A b) { return a <= b; });
    case MapFunction::greater: return binary<bool, A>([](A a, A b) { return a > b; });
    case MapFunction::greater_equal: return binary<bool, A>([](A a, A b) { return a >= b; });
    case MapFunction::negate: return unary<A, A>([](A a) { return -a; });
    case MapFunction::relu: return unary<A, A>([](A a) { return meshrt::relu(a); });
    case MapFunction::abs: return unary<A, A>([](A a) { return meshrt::abs(a); });
    case MapFunction::sign: return unary<A, A>([](A a) { return meshrt::sign(a); });
    case MapFunction::square: return unary<A, A>([](A a) { return meshrt::square(a); });
    default: return nullptr;
  }
}

// Functions of real numbers.
template <class A>
ChunkFunction analytic(MapFunction function) {
  switch (function) {
    case MapFunction::power: return binary<A, A>([](A a, A b) { return meshrt::pow(a, b); });
    case MapFunction::exp: return unary<A, A>([](A a) { return meshrt::exp(a); });
    case MapFunction::log: return unary<A, A>([](A a) { return meshrt::log(a); });
    case MapFunction::sqrt: return unary<A, A>([](A a) { return meshrt::sqrt(a); });
    case MapFunction::rsqrt: return unary<A, A>([](A a) { return meshrt::rsqrt(a); });
    case MapFunction::tanh: return unary<A, A>([](A a) { return meshrt::tanh(a); });
    case MapFunction::sigmoid: return unary<A, A>([](A a) { return meshrt::sigmoid(a); });
    case MapFunction::gelu: return unary<A, A>([](A a) { return meshrt::gelu(a); });
    case MapFunction::gelu_tanh: return unary<A, A>([](A a) { return meshrt::gelu_tanh(a); });
    case MapFunction::silu: return unary<A, A>([](A a) { return meshrt::silu(a); });
    case MapFunction::erf: return unary<A, A>([](A a) { return meshrt::erf(a); });
    case MapFunction::sin: return unary<A, A>([](A a) { return meshrt::sin(a); });
    case MapFunction::cos: return unary<A, A>([](A a) { return meshrt::cos(a); });
    case MapFunction::floor: return unary<A, A>([](A a) { return meshrt::floor(a); });
    case MapFunction::round: return unary<A, A>([](A a) { return meshrt::round(a); });
    case MapFunction::log1p: return unary<A, A>([](A a) { return meshrt::log1p(a); });
    case MapFunction::expm1: return unary<A, A>([](A a) { return meshrt::expm1(a); });
    case MapFunction::softplus: return unary<A, A>([](A a) { return meshrt::softplus(a); });
    case MapFunction::reciprocal: return unary<A, A>([](A a) { return 1 / a; });
    case MapFunction::gelu_slope: return unary<A, A>([](A a) { return meshrt::gelu_slope(a); });
    case MapFunction::gelu_tanh_slope: return unary<A, A>([](A a) { return meshrt::gelu_tanh_slope(a); });
    case MapFunction::silu_slope: return unary<A, A>([](A a) { return meshrt::silu_slope(a); });
    default: return nullptr;
  }
}

template <class A>
ChunkFunction of_type(MapFunction function, Type result) {
  if (const ChunkFunction loop = general<A>(function, result)) return loop;
  if constexpr (is_bool<A>) {
    return logical(function);
  } else {
    if (const ChunkFunction loop = arithmetic<A>(function)) return loop;
    if constexpr (std::is_same_v<A, float>) {
      if (function == MapFunction::round_bf16) return binary<A, A>([](A x, A u) { return meshrt::round_bf16(x, u); });
      if (function == MapFunction::round_f16) return binary<A, A>([](A x, A u) { return meshrt::round_f16(x, u); });
    }
    if constexpr (std::is_floating_point_v<A>) return analytic<A>(function);
    return nullptr;
  }
}

ChunkFunction function_of(MapFunction function, Type operand, Type result) {
  if (is_narrow(operand) || is_narrow(result))
    return operand == Type::bf16 || result == Type::bf16 ? of_narrow<meshrt::Bfloat16>(function, operand, result)
                                                         : of_narrow<meshrt::Float16>(function, operand, result);
  switch (operand) {
    case Type::f32: return of_type<float>(function, result);
    case Type::f64: return of_type<double>(function, result);
    case Type::i32: return of_type<int32_t>(function, result);
    case Type::i64: return of_type<int64_t>(function, result);
    case Type::u8: return of_type<uint8_t>(function, result);
    case Type::boolean: return of_type<bool>(function, result);
    default: return nullptr;
  }
}

// ---- reductions, accumulation, movement

template <class A, Reduce reduce>
ChunkReduction lanes_of() {
  using Lanes = meshrt::Lanes<A, reduce>;
  static_assert(sizeof(Lanes) <= lane_bytes && chunk_elements % meshrt::lane_count == 0);
  return {[](void* lanes) { new (lanes) Lanes; },
          [](const void* x, void* lanes, int64_t n) {
            const A* from = static_cast<const A*>(x);
            static_cast<Lanes*>(lanes)->add(n, [&](int64_t i) { return from[i]; });
          },
          [](const void* lanes, void* to) { static_cast<Lanes*>(to)->join(static_cast<const Lanes*>(lanes)->lane); },
          [](const void* lanes, void* row) { *static_cast<A*>(row) = static_cast<const Lanes*>(lanes)->combine(); }};
}

template <class A, Reduce reduce>
ChunkAccumulate accumulate_loop() {
  return [](const void* x, void* to, int64_t stride, int64_t n) {
    const A* __restrict from = static_cast<const A*>(x);
    A* __restrict sums = static_cast<A*>(to);
    using meshrt::detail::join;
    if (stride == 1) {
      for (int64_t i = 0; i < n; ++i) sums[i] = join<reduce>(sums[i], from[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) sums[i * stride] = join<reduce>(sums[i * stride], from[i]);
    }
  };
}

template <class A, Reduce reduce>
ChunkArgFold arg_fold_loop() {
  return {[](ArgFold& fold) { fold = {}, *reinterpret_cast<A*>(fold.best) = meshrt::detail::identity<A, reduce>(); },
          [](const void* x, int64_t first, int64_t n, ArgFold& fold) {
            const A* from = static_cast<const A*>(x);
            A& best = *reinterpret_cast<A*>(fold.best);
            for (int64_t i = 0; i < n; ++i) {
              if (reduce == Reduce::max ? from[i] > best : from[i] < best) {
                best = from[i];
                fold.index = static_cast<int32_t>(first + i);
              }
            }
          }};
}

template <class A>
void move_loop(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const A* source = static_cast<const A*>(from);
  A* target = static_cast<A*>(to);
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(A));
  } else if (from_stride == 0 && to_stride == 1) {
    const A value = *source;
    for (int64_t i = 0; i < n; ++i) target[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) target[i * to_stride] = source[i * from_stride];
  }
}

// make(a number of the type) for the types of numbers.
template <class Result, class Make>
Result by_type(Type type, Make make) {
  switch (type) {
    case Type::f32: return make(float());  // NOLINT(bugprone-branch-clone): the branches differ in the type
    case Type::f64: return make(double());
    case Type::i32: return make(int32_t());
    case Type::i64: return make(int64_t());
    case Type::u8: return make(uint8_t());
    default: return Result();
  }
}

ChunkReduction reduction_of(Reduce reduce, Type type) {
  return by_type<ChunkReduction>(type, [&]<class A>(A) {
    return reduce == Reduce::sum   ? lanes_of<A, Reduce::sum>()
           : reduce == Reduce::max ? lanes_of<A, Reduce::max>()
                                   : lanes_of<A, Reduce::min>();
  });
}

ChunkArgFold arg_fold_of(Reduce reduce, Type type) {
  if (reduce == Reduce::sum) return {};
  return by_type<ChunkArgFold>(type, [&]<class A>(A) {
    return reduce == Reduce::max ? arg_fold_loop<A, Reduce::max>() : arg_fold_loop<A, Reduce::min>();
  });
}

ChunkAccumulate accumulate_of(Reduce reduce, Type type) {
  return by_type<ChunkAccumulate>(type, [&]<class A>(A) {
    return reduce == Reduce::sum   ? accumulate_loop<A, Reduce::sum>()
           : reduce == Reduce::max ? accumulate_loop<A, Reduce::max>()
                                   : accumulate_loop<A, Reduce::min>();
  });
}

ChunkMove move_of(Type type) {
  switch (meshrt::size_of(type)) {
    case 1: return move_loop<uint8_t>;
    case 2: return move_loop<uint16_t>;
    case 4: return move_loop<uint32_t>;
    default: return move_loop<uint64_t>;
  }
}

template <class T>
void uniform_loop(meshrt::RandomKey key, int64_t first, int64_t step, void* y, int64_t n) {
  T* __restrict to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = meshrt::uniform<T>(key, first + i * step);
}

template <class T>
void normal_loop(meshrt::RandomKey key, int64_t first, int64_t step, void* y, int64_t n) {
  T* __restrict to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = meshrt::normal<T>(key, first + i * step);
}

ChunkDraw draw_of(Distribution distribution, Type type) {
  const bool normal = distribution == Distribution::normal;
  if (type == Type::f32) return normal ? normal_loop<float> : uniform_loop<float>;
  if (type == Type::f64) return normal ? normal_loop<double> : uniform_loop<double>;
  return nullptr;
}

}  // namespace

extern const ChunkKernels kernels;
const ChunkKernels kernels{function_of, reduction_of, arg_fold_of, accumulate_of, move_of, draw_of};

}  // namespace mesh::MESH_VARIANT
