// types.h: element types and reductions, as they lie in memory.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>

#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"

namespace meshrt {

enum class Type : uint8_t { f32, f64, bf16, f16, i32, i64, u8, boolean };

/// Bytes of one element.
constexpr size_t size_of(Type type) {
  switch (type) {
    case Type::f64:
    case Type::i64: return 8;
    case Type::f32:
    case Type::i32: return 4;
    case Type::bf16:
    case Type::f16: return 2;
    case Type::u8:
    case Type::boolean: return 1;
  }
  return 0;
}

/// The name used in specs, plans and messages: "f32", "bool", ...
const char* name_of(Type type);

/// How the contributions of several ranks become one value.
enum class Reduce : uint8_t { sum, max, min };

const char* name_of(Reduce reduce);

/// What lies beyond the ends of a dim: the other end, the element at the end again and again, or a number.
struct Edge {
  enum class Kind : uint8_t { wrap, clamp, value };
  Kind kind = Kind::value;
  double value = 0;
  auto operator<=>(const Edge&) const = default;
};

/// The type that holds an element of C++ type T.
template <class T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr Type value = Type::f32;
};
template <>
struct TypeOf<double> {
  static constexpr Type value = Type::f64;
};
template <>
struct TypeOf<Bfloat16> {
  static constexpr Type value = Type::bf16;
};
template <>
struct TypeOf<AsBfloat16> {  // as it lies in memory
  static constexpr Type value = Type::f32;
};
template <>
struct TypeOf<Float16> {
  static constexpr Type value = Type::f16;
};
template <>
struct TypeOf<int32_t> {
  static constexpr Type value = Type::i32;
};
template <>
struct TypeOf<int64_t> {
  static constexpr Type value = Type::i64;
};
template <>
struct TypeOf<uint8_t> {
  static constexpr Type value = Type::u8;
};
template <>
struct TypeOf<bool> {
  static constexpr Type value = Type::boolean;
};
template <class T>
inline constexpr Type type_of = TypeOf<T>::value;

}  // namespace meshrt
