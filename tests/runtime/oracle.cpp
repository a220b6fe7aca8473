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
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else return a + b;
}

/// The balanced binary tree over members [begin, end): its left half is as long as the largest power of two below it.
/// `values_of` gives all of a member's elements.
template <class Values>
auto reduced_tree(Reduce op, size_t begin, size_t end, const Values& values_of) -> decltype(values_of(begin)) {
  if (end - begin == 1) return values_of(begin);
  const size_t middle = begin + std::bit_floor(end - begin - 1);
  auto left = reduced_tree(op, begin, middle, values_of);
  const auto right = reduced_tree(op, middle, end, values_of);
  for (size_t i = 0; i < left.size(); ++i) left[i] = reduced(op, left[i], right[i]);
  return left;
}

template <class T>
void reduce_all(Reduce op, Bytes& out, const std::vector<Bytes>& in) {
  if (out.empty()) return;
  const auto values = reduced_tree(op, 0, in.size(), [&](size_t m) {
    std::vector<T> all(out.size() / sizeof(T));
    std::memcpy(all.data(), in[m].data(), out.size());
    return all;
  });
  std::memcpy(out.data(), values.data(), out.size());
}

// Contributions are stretches of these numbers, which are drawn once and repeat: ranks of one call begin at different
// ones, and as they are a prime, what is moved by a power of two is something else.
constexpr int64_t drawn_count = 16411;

template <class Element>
Bytes drawn(Element element) {
  using T = decltype(element(uint64_t{}));
  Bytes data(drawn_count * sizeof(T));
  for (int64_t i = 0; i < drawn_count; ++i)
    put(data.data() + i * static_cast<int64_t>(sizeof(T)), element(random_of(7, static_cast<uint64_t>(i))));
  return data;
}

double drawn_number(uint64_t r) { return (static_cast<double>(r % 2000003) - 1000001.0) / 7919.0; }

const Bytes& drawn_numbers(Type type) {
  static const Bytes as_f32 = drawn([](uint64_t r) { return static_cast<float>(drawn_number(r)); }),
                     as_f64 = drawn([](uint64_t r) { return drawn_number(r); }),
                     as_bf16 = drawn([](uint64_t r) { return bf16_of(static_cast<float>(drawn_number(r))); }),
                     as_f16 =
                         drawn([](uint64_t r) { return static_cast<_Float16>(static_cast<float>(drawn_number(r))); }),
                     as_i32 = drawn([](uint64_t r) { return static_cast<int32_t>(r); }),
                     as_i64 = drawn([](uint64_t r) { return static_cast<int64_t>(r); }),
                     as_u8 = drawn([](uint64_t r) { return static_cast<uint8_t>(r); }),
                     as_boolean = drawn([](uint64_t r) { return r % 5 == 0; });
  switch (type) {
    case Type::f32: return as_f32;
    case Type::f64: return as_f64;
    case Type::bf16: return as_bf16;
    case Type::f16: return as_f16;
    case Type::i32: return as_i32;
    case Type::i64: return as_i64;
    case Type::u8: return as_u8;
    case Type::boolean: break;
  }
  return as_boolean;
}

}  // namespace

uint64_t random_of(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15 + b * 0xbf58476d1ce4e5b9 + 0x94d049bb133111eb;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

Bytes contribution(Type type, int64_t count, int rank, uint64_t salt) {
  const Bytes& numbers = drawn_numbers(type);
  const auto size = static_cast<int64_t>(size_of(type));
  Bytes data(static_cast<size_t>(count * size));
  constexpr int64_t apart = 4099;  // ranks
  auto from = (static_cast<int64_t>(random_of(salt, 0) % drawn_count) + rank * apart) % drawn_count;
  for (int64_t done = 0; done < count; from = 0) {
    const int64_t stretch = std::min(count - done, drawn_count - from);
    std::memcpy(data.data() + done * size, numbers.data() + from * size, static_cast<size_t>(stretch * size));
    done += stretch;
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
    case Type::boolean: {  // of bytes that are 0 and 1
      reduce_all<uint8_t>(op == Reduce::sum ? Reduce::max : op, out, in);
      break;
    }
    case Type::bf16:
    case Type::f16: {
      const auto values = reduced_tree(op, 0, in.size(), [&](size_t m) {
        std::vector<float> all(out.size() / 2);
        for (size_t i = 0; i < all.size(); ++i) all[i] = f32_of(type, in[m].data() + 2 * i);
        return all;
      });
      for (size_t i = 0; i < values.size(); ++i) put_f32(type, out.data() + 2 * i, values[i]);
    }
  }
  return out;
}

}  // namespace meshrt::test
