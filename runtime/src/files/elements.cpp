#include "files/elements.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace meshrt {

static_assert(std::endian::native == std::endian::little, "files and tensors are little-endian; so must be the host");

namespace {

template <class T>
constexpr bool is_narrow = std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>;

template <class T>
T load(const std::byte* from, bool big_endian) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, from, sizeof(T));
  if (big_endian)
    for (size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// The f32 which a narrower type rounds as it would x: cut off, with the last bit set where there was more.
float to_be_rounded(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  const uint32_t farther = std::abs(static_cast<double>(nearest)) > std::abs(x) ? 1 : 0;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(nearest) - farther) | 1);
}

// A number of a file in the widest type of its kind, so that a check is written once: double, int64_t or uint64_t.
template <class T>
auto widen(T value) {
  if constexpr (is_narrow<T>) return static_cast<double>(static_cast<float>(value));
  else if constexpr (std::is_floating_point_v<T>) return static_cast<double>(value);
  else if constexpr (std::is_same_v<T, uint64_t>) return value;
  else return static_cast<int64_t>(value);
}

// Which numbers are taken, of those that the new type holds, and whether too large floats are.
struct Takes {
  int64_t bound;  // of whole numbers: below it, if it is not negative
  Overflow overflow;
};

// False when `wide` has no equal in T (whole numbers), lies outside [0, bound), or beyond the largest number of T
// (floats).
template <class T, class Wide>
bool narrow(Wide wide, int64_t bound, T& to) {
  if constexpr (is_narrow<T> || std::is_floating_point_v<T>) {
    if constexpr (is_narrow<T>) to = T(to_be_rounded(static_cast<double>(wide)));
    else to = static_cast<T>(wide);
    if constexpr (!std::is_same_v<T, double>)
      return std::isfinite(static_cast<float>(to)) || !std::isfinite(static_cast<double>(wide));
  } else if constexpr (std::is_same_v<Wide, double>) {
    // 2^63 is a double, the greatest int64_t is not
    constexpr double limit =
        std::is_same_v<T, int64_t> ? 0x1p63 : static_cast<double>(std::numeric_limits<T>::max()) + 1;
    if (!(wide >= static_cast<double>(std::numeric_limits<T>::min()) && wide < limit && wide == std::floor(wide)))
      return false;
    if (bound >= 0 && !(wide >= 0 && wide < static_cast<double>(bound))) return false;
    to = static_cast<T>(wide);
  } else {
    if (!std::in_range<T>(wide)) return false;
    if (bound >= 0 && (std::cmp_less(wide, 0) || std::cmp_greater_equal(wide, bound))) return false;
    to = static_cast<T>(wide);
  }
  return true;
}

template <class From, class To>
std::optional<Misfit> convert_all(const std::byte* from, bool big_endian, int64_t count, const Takes& takes, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    const auto wide = widen(load<From>(from + i * sizeof(From), big_endian));
    const bool fits =
        narrow(wide, takes.bound, to[i]) || (!std::is_integral_v<To> && takes.overflow == Overflow::infinity);
    if (!fits) return Misfit{i, fmt::format("{}", wide)};
  }
  return std::nullopt;
}

template <class To>
std::optional<Misfit> convert_to(const std::byte* from, Encoding encoding, int64_t count, const Takes& takes, To* to) {
  const bool swapped = encoding.big_endian;
  switch (encoding.number) {
    case Number::boolean:
    case Number::u8: return convert_all<uint8_t>(from, swapped, count, takes, to);
    case Number::i8: return convert_all<int8_t>(from, swapped, count, takes, to);
    case Number::u16: return convert_all<uint16_t>(from, swapped, count, takes, to);
    case Number::i16: return convert_all<int16_t>(from, swapped, count, takes, to);
    case Number::u32: return convert_all<uint32_t>(from, swapped, count, takes, to);
    case Number::i32: return convert_all<int32_t>(from, swapped, count, takes, to);
    case Number::u64: return convert_all<uint64_t>(from, swapped, count, takes, to);
    case Number::i64: return convert_all<int64_t>(from, swapped, count, takes, to);
    case Number::f16: return convert_all<Float16>(from, swapped, count, takes, to);
    case Number::bf16: return convert_all<Bfloat16>(from, swapped, count, takes, to);
    case Number::f32: return convert_all<float>(from, swapped, count, takes, to);
    case Number::f64: return convert_all<double>(from, swapped, count, takes, to);
  }
  return std::nullopt;
}

}  // namespace

size_t size_of(Number number) {
  switch (number) {
    case Number::boolean:
    case Number::u8:
    case Number::i8: return 1;
    case Number::u16:
    case Number::i16:
    case Number::f16:
    case Number::bf16: return 2;
    case Number::u32:
    case Number::i32:
    case Number::f32: return 4;
    case Number::u64:
    case Number::i64:
    case Number::f64: return 8;
  }
  return 0;
}

const char* name_of(Number number) {
  switch (number) {
    case Number::boolean: return "bool";
    case Number::u8: return "u8";
    case Number::i8: return "i8";
    case Number::u16: return "u16";
    case Number::i16: return "i16";
    case Number::u32: return "u32";
    case Number::i32: return "i32";
    case Number::u64: return "u64";
    case Number::i64: return "i64";
    case Number::f16: return "f16";
    case Number::bf16: return "bf16";
    case Number::f32: return "f32";
    case Number::f64: return "f64";
  }
  return "?";
}

std::string reach_of(Type type) {
  return type == Type::f16 ? fmt::format("{}, up to 65504", name_of(type)) : name_of(type);
}

bool is_float(Number number) { return number >= Number::f16; }
bool is_float(Type type) { return is_float(number_of(type)); }

Number number_of(Type type) {
  switch (type) {
    case Type::f32: return Number::f32;
    case Type::f64: return Number::f64;
    case Type::bf16: return Number::bf16;
    case Type::f16: return Number::f16;
    case Type::i32: return Number::i32;
    case Type::i64: return Number::i64;
    case Type::u8: return Number::u8;
    case Type::boolean: return Number::boolean;
  }
  return Number::u8;
}

std::optional<Type> type_of_number(Number number) {
  for (const Type type : {Type::f32, Type::f64, Type::bf16, Type::f16, Type::i32, Type::i64, Type::u8, Type::boolean})
    if (number_of(type) == number) return type;
  return std::nullopt;
}

std::optional<Misfit> convert(const std::byte* from, Encoding encoding, int64_t count, Type type, int64_t bound,
                              void* to, Overflow overflow) {
  if (count == 0) return std::nullopt;  // of an empty file there may be no address
  if (!encoding.big_endian && encoding.number == number_of(type) && bound < 0 && type != Type::boolean) {
    std::memcpy(to, from, count * size_of(type));
    return std::nullopt;
  }
  const Takes takes{bound, overflow};
  switch (type) {
    case Type::f32: return convert_to(from, encoding, count, takes, static_cast<float*>(to));
    case Type::f64: return convert_to(from, encoding, count, takes, static_cast<double*>(to));
    case Type::bf16: return convert_to(from, encoding, count, takes, static_cast<Bfloat16*>(to));
    case Type::f16: return convert_to(from, encoding, count, takes, static_cast<Float16*>(to));
    case Type::i32: return convert_to(from, encoding, count, takes, static_cast<int32_t*>(to));
    case Type::i64: return convert_to(from, encoding, count, takes, static_cast<int64_t*>(to));
    case Type::u8: return convert_to(from, encoding, count, takes, static_cast<uint8_t*>(to));
    case Type::boolean:
      return convert_to(from, encoding, count, {bound < 0 ? 2 : bound, overflow}, static_cast<uint8_t*>(to));
  }
  return std::nullopt;
}

}  // namespace meshrt
