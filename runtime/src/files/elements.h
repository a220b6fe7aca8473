// elements.h: numbers as files hold them, and their conversion to the types of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "meshrt/types.h"

namespace meshrt {

/// How a file writes one number.
enum class Number : uint8_t { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 };

struct Encoding {
  Number number = Number::u8;
  bool big_endian = false;
  bool operator==(const Encoding&) const = default;
};

/// Bytes of one number.
size_t size_of(Number number);
/// "u16", "bool", ...
const char* name_of(Number number);
/// Tells floats from whole numbers and bools.
bool is_float(Number number);
bool is_float(Type type);
/// What a tensor of the type holds, for messages: "i32", "bf16"; where numbers soon go beyond it "f16, up to 65504".
std::string reach_of(Type type);

/// The encoding of a tensor's elements in memory, and back; a number that no tensor has (u16, ...) has no type.
Number number_of(Type type);
std::optional<Type> type_of_number(Number number);

/// The first number that its new type cannot hold, counted from the beginning of the conversion.
struct Misfit {
  int64_t index;
  std::string number;  ///< as a person writes it
};

/// What becomes of a finite number that the new type has no place for.
enum class Overflow : uint8_t { misfit, infinity };

/// to[0, count) = from[0, count). Floats are rounded to the new type, of which a finite one must not be infinite; a
/// whole number must fit exactly, and lie in [0, bound) where bound >= 0; from floats to whole numbers only equal
/// values fit.
std::optional<Misfit> convert(const std::byte* from, Encoding encoding, int64_t count, Type type, int64_t bound,
                              void* to, Overflow overflow = Overflow::misfit);

}  // namespace meshrt
