#include "oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace meshrt::test {

namespace {

// Elements are sixteen or more bits in memory, and f32 or more here.
uint16_t bf16_of(float x) {  // by trying both neighbours, not by the library's bit trick
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t down = bits & 0xffff0000, up = down + 0x10000;
  const double to_down = std::abs(double{x} - std::bit_cast<float>(down)),
               to_up = std::abs(std::bit_cast<float>(up) - double{x});
  const bool odd = down >> 16 & 1;
  return static_cast<uint16_t>((to_up < to_down || (to_up == to_down && odd) ? up : down) >> 16);
}

float f32_of(Type type, const std::byte* at) {
  return type == Type::bf16 ? std::bit_cast<float>(uint32_t{get<uint16_t>(at)} << 16)
                            : static_cast<float>(get<_Float16>(at));
}

void put_f32(Type type, std::byte* at, float x) {
  if (type == Type::bf16) put(at, bf16_of(x));
  else put(at, static_cast<_Float16>(x));
}

template <class T>
T reduced(Reduce op, T a, T b) {
  if (op == Reduce::max) return std::max(a, b);
  if (op == Reduce::min) return std::min(a, b);
  if constexpr (std::is_same_v<T, bool>) return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else return a + b;
}

/// The balanced binary tree over members [begin, end): its left half is as long as the largest power of two below it.
template <class Value>
auto reduced_tree(Reduce op, size_t begin, size_t end, Value value_of) -> decltype(value_of(begin)) {
  if (end - begin == 1) return value_of(begin);
  const size_t middle = begin + std::bit_floor(end - begin - 1);
  return reduced(op, reduced_tree(op, begin, middle, value_of), reduced_tree(op, middle, end, value_of));
}

template <class T>
void reduce_all(Reduce op, Bytes& out, const std::vector<Bytes>& in) {
  for (size_t at = 0; at < out.size(); at += sizeof(T))
    put(&out[at], reduced_tree(op, 0, in.size(), [&](size_t m) { return get<T>(&in[m][at]); }));
}

}  // namespace

uint64_t random_of(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15 + b * 0xbf58476d1ce4e5b9 + 0x94d049bb133111eb;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

Bytes contribution(Type type, int64_t count, int rank, uint64_t salt) {
  Bytes data(count * size_of(type));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t r = random_of(salt * 1000 + rank, i);
    const double x = (static_cast<double>(r % 2000003) - 1000001.0) / 7919.0;
    std::byte* at = data.data() + i * size_of(type);
    switch (type) {
      case Type::f32: put(at, static_cast<float>(x)); break;
      case Type::f64: put(at, x); break;
      case Type::bf16:
      case Type::f16: put_f32(type, at, static_cast<float>(x)); break;
      case Type::i32: put(at, static_cast<int32_t>(r)); break;
      case Type::i64: put(at, static_cast<int64_t>(r)); break;
      case Type::u8: put(at, static_cast<uint8_t>(r)); break;
      case Type::boolean: put(at, r % 5 == 0); break;
    }
  }
  return data;
}

Bytes reduce_oracle(Type type, Reduce op, const std::vector<Bytes>& in) {
  Bytes out(in[0].size());
  switch (type) {
    case Type::f32: reduce_all<float>(op, out, in); break;
    case Type::f64: reduce_all<double>(op, out, in); break;
    case Type::i32: reduce_all<int32_t>(op, out, in); break;
    case Type::i64: reduce_all<int64_t>(op, out, in); break;
    case Type::u8: reduce_all<uint8_t>(op, out, in); break;
    case Type::boolean: reduce_all<bool>(op, out, in); break;
    case Type::bf16:
    case Type::f16:
      for (size_t at = 0; at < out.size(); at += 2)
        put_f32(type, &out[at], reduced_tree(op, 0, in.size(), [&](size_t m) { return f32_of(type, &in[m][at]); }));
  }
  return out;
}

}  // namespace meshrt::test
