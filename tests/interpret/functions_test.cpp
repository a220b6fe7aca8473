// The interpreter's elementwise functions give the bits of what the emitter writes, for every type.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "tests/interpret/emitted_functions.h"

namespace {

using mesh::MapFunction;
using meshrt::Type;

constexpr int64_t count = 251;  // not a multiple of any vector
const std::set<MapFunction> rounding{MapFunction::round_bf16, MapFunction::round_f16};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<std::byte> numbers(std::mt19937& random, bool in_range) {
  std::vector<T> values;
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    if (!in_range)
      values = {0,
                T(-0.0),
                1,
                -1,
                Limits::infinity(),
                -Limits::infinity(),
                Limits::quiet_NaN(),
                Limits::max(),
                Limits::min(),
                Limits::denorm_min(),
                T(0.5),
                T(-0.5),
                T(100),
                T(-100),
                T(3),
                T(2)};
    std::normal_distribution<T> normal(0, 5);
    while (values.size() < count) values.push_back(in_range ? std::abs(normal(random)) : normal(random));
  } else {
    std::uniform_int_distribution<int> small(1, std::is_same_v<T, uint8_t> ? 255 : 40);
    while (values.size() < count)
      values.push_back(
          static_cast<T>(std::is_signed_v<T> && !in_range && values.size() % 2 ? -small(random) : small(random)));
  }
  return bytes_of(values);
}

std::vector<std::byte> operands(std::mt19937& random, Type type, bool in_range) {
  switch (type) {
    case Type::f32: return numbers<float>(random, in_range);
    case Type::f64: return numbers<double>(random, in_range);
    case Type::i32: return numbers<int32_t>(random, in_range);
    case Type::i64: return numbers<int64_t>(random, in_range);
    case Type::u8: return numbers<uint8_t>(random, in_range);
    default: break;
  }
  std::vector<uint8_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(random() % 2);
  return bytes_of(values);
}

// Uniform in [0, 1).
std::vector<std::byte> draws(std::mt19937& random) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random() >> 8) * 0x1p-24F);
  return bytes_of(values);
}

// NaN may differ in its sign and payload; nothing else may.
void expect_same(const std::vector<std::byte>& expected, const std::vector<std::byte>& given, Type type,
                 const std::string& what) {
  const size_t size = meshrt::size_of(type);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    if (std::memcmp(expected.data() + i * size, given.data() + i * size, size) == 0) continue;
    double a = 0, b = 0;
    if (type == Type::f32) {
      float x, y;
      std::memcpy(&x, expected.data() + i * size, size);
      std::memcpy(&y, given.data() + i * size, size);
      a = x, b = y;
    } else if (type == Type::f64) {
      std::memcpy(&a, expected.data() + i * size, size);
      std::memcpy(&b, given.data() + i * size, size);
    }
    ASSERT_TRUE(a != a && b != b) << what << " element " << i << ": emitted " << a << ", interpreted " << b;
  }
}

TEST(Functions, GiveTheBitsOfEmittedLoops) {
  std::mt19937 random(1);
  for (const EmittedFunction& emitted : emitted_functions()) {
    // Out of range, conversions to integers and integer division mean nothing in C++.
    const bool to_integer = emitted.function == MapFunction::cast && emitted.result != Type::f32 &&
                            emitted.result != Type::f64 && emitted.result != Type::boolean;
    const auto a =
        operands(random, emitted.function == MapFunction::where ? Type::boolean : emitted.operand, to_integer);
    const auto b = rounding.contains(emitted.function) ? draws(random) : operands(random, emitted.operand, to_integer);
    const auto c = operands(random, emitted.operand, to_integer);
    const size_t bytes = static_cast<size_t>(count) * meshrt::size_of(emitted.result);
    std::vector<std::byte> expected(bytes), given(bytes);
    emitted.loop(a.data(), b.data(), c.data(), expected.data(), count);
    const auto interpreted = mesh::chunk_kernels().function(emitted.function, emitted.operand, emitted.result);
    ASSERT_NE(interpreted, nullptr);
    interpreted(a.data(), b.data(), c.data(), given.data(), count);
    expect_same(expected, given, emitted.result,
                std::string(mesh::info(emitted.function).name) + " of " + meshrt::name_of(emitted.operand));
  }
}

TEST(Functions, ExistForEveryTypeThatHasThem) {
  std::set<std::pair<MapFunction, Type>> known;
  for (const EmittedFunction& emitted : emitted_functions()) known.emplace(emitted.function, emitted.operand);
  const std::set<MapFunction> of_graphs{MapFunction::cast_part};  // which programs write as a cast
  const std::set<MapFunction> logical{MapFunction::logical_and, MapFunction::logical_or, MapFunction::logical_not};
  for (int f = 0; f <= static_cast<int>(MapFunction::copy); ++f) {
    const auto function = static_cast<MapFunction>(f);
    if (of_graphs.contains(function)) continue;
    for (const Type type : {Type::f32, Type::f64})
      EXPECT_EQ(known.contains({function, type}),
                !logical.contains(function) && (type == Type::f32 || !rounding.contains(function)))
          << mesh::info(function).name;
    EXPECT_EQ(known.contains({function, Type::boolean}),
              logical.contains(function) || function == MapFunction::equal || function == MapFunction::not_equal ||
                  function == MapFunction::where || function == MapFunction::cast || function == MapFunction::copy)
        << mesh::info(function).name;
    EXPECT_EQ(known.contains({function, Type::i32}), known.contains({function, Type::i64}));
    EXPECT_EQ(known.contains({function, Type::i32}), known.contains({function, Type::u8}));
  }
}

TEST(Functions, LiteralsAreRoundedToTheirType) {
  float f;
  mesh::write_literal(0.1, Type::f32, &f);
  EXPECT_EQ(f, 0.1f);
  double d;
  mesh::write_literal(0.1, Type::f64, &d);
  EXPECT_EQ(d, 0.1);
  int32_t i;
  mesh::write_literal(-7, Type::i32, &i);
  EXPECT_EQ(i, -7);
  mesh::write_literal(-std::numeric_limits<double>::infinity(), Type::i32, &i);
  EXPECT_EQ(i, std::numeric_limits<int32_t>::lowest());
  int64_t l;
  mesh::write_literal(std::numeric_limits<double>::infinity(), Type::i64, &l);
  EXPECT_EQ(l, std::numeric_limits<int64_t>::max());
  bool b;
  mesh::write_literal(1, Type::boolean, &b);
  EXPECT_TRUE(b);
}

}  // namespace
