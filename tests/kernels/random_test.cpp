// Random numbers: the published vectors, independence from the layout, the shape of the distributions; initial values,
// lookup and schedules, which are small enough to share this file's program.
#include "meshrt/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/random_kernel.h"
#include "meshrt/lookup.h"
#include "meshrt/program.h"
#include "meshrt/rate.h"
#include "variants.h"

namespace meshrt {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Random, PhiloxGivesThePublishedWords) {
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, HashIsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8u);
}

TEST(Random, KeysDiffer) {
  const RandomKey key(1, "layer.attn.wq");
  const auto words = [](RandomKey k) { return random_words(k, 5); };
  EXPECT_NE(words(key), words(RandomKey(2, "layer.attn.wq")));
  EXPECT_NE(words(key), words(RandomKey(1, "layer.attn.wk")));
  EXPECT_NE(words(key), words(key.at(0)));
  EXPECT_NE(words(key.at(1).at(2)), words(key.at(2).at(1)));
  EXPECT_NE(random_words(key, 5), random_words(key, 5 + (int64_t(1) << 32)));
}

TEST(Random, ALayoutDoesNotChangeANumber) {
  constexpr int64_t rows = 7, cols = 11, depth = 5;
  std::vector<float> whole(size_t(rows * cols * depth));
  const RandomKey key(3, "w");
  const Part all[] = {{rows, 0, rows}, {cols, 0, cols}, {depth, 0, depth}};
  fill_normal<float>(whole.data(), all, key, 1, 2);
  const Part part[] = {{rows, 2, 5}, {cols, 4, 11}, {depth, 1, 3}};
  std::vector<float> local(42);
  fill_normal<float>(local.data(), part, key, 1, 2);
  size_t at = 0;
  for (int64_t r = 2; r < 5; ++r)
    for (int64_t c = 4; c < 11; ++c)
      for (int64_t d = 1; d < 3; ++d, ++at) EXPECT_EQ(local[at], whole[(r * cols + c) * depth + d]);
}

TEST(Random, VariantsAgreeToTheBit) {
  using Kernel = void (*)(const Draw&, int64_t, int64_t, double*);
  for (const Distribution distribution :
       {Distribution::uniform, Distribution::normal, Distribution::truncated_normal}) {
    std::vector<double> first;
    for (const auto& variant : variants<Kernel>(MESHRT_VARIANTS(draw_run<double>))) {
      std::vector<double> now(1003);
      variant.run({distribution, RandomKey(1, "x"), -1, 2}, 17, 1003, now.data());
      if (first.empty()) first = now;
      EXPECT_EQ(now, first) << variant.name;
    }
  }
}

struct Moments {
  double mean = 0, deviation = 0, low = 0, high = 0;
};
Moments moments(const std::vector<double>& x) {
  Moments m;
  m.mean = std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
  for (const double v : x) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / double(x.size()));
  m.low = *std::min_element(x.begin(), x.end()), m.high = *std::max_element(x.begin(), x.end());
  return m;
}

TEST(Random, Distributions) {
  constexpr int64_t n = 1 << 20;
  const Part all[] = {{n, 0, n}};
  std::vector<double> x(n);
  fill_normal<double>(x.data(), all, RandomKey(1, "n"), 3, 2);
  Moments m = moments(x);
  std::printf("  normal(3, 2): mean %.4f, deviation %.4f, from %.2f to %.2f\n", m.mean, m.deviation, m.low, m.high);
  EXPECT_NEAR(m.mean, 3, 0.01);
  EXPECT_NEAR(m.deviation, 2, 0.01);
  EXPECT_GT(m.high, 3 + 2 * 4.2);
  fill_truncated_normal<double>(x.data(), all, RandomKey(1, "n"), 0, 1);
  m = moments(x);
  std::printf("  truncated: mean %.4f, deviation %.4f, from %.4f to %.4f\n", m.mean, m.deviation, m.low, m.high);
  EXPECT_NEAR(m.deviation, 0.87963, 0.003);  // of the normal distribution cut at 2
  EXPECT_GE(m.low, -2);
  EXPECT_LE(m.high, 2);
  fill_uniform<double>(x.data(), all, RandomKey(1, "n"), -1, 3);
  m = moments(x);
  std::printf("  uniform(-1, 3): mean %.4f, deviation %.4f\n", m.mean, m.deviation);
  EXPECT_NEAR(m.mean, 1, 0.01);
  EXPECT_NEAR(m.deviation, 4 / std::sqrt(12), 0.01);
  EXPECT_GE(m.low, -1);
  EXPECT_LT(m.high, 3);
}

Tensor tensor(const char* name, Role role, Type type, std::vector<LocalDim> dims, void* data, Initial initial) {
  Tensor t;
  t.name = name, t.role = role, t.type = type, t.dims = std::move(dims), t.data = data, t.initial = initial;
  return t;
}

TEST(Initialise, FollowsRoleKindAndPath) {
  float weight[6], gain[4] = {}, input[2] = {5, 5};
  double state[3] = {7, 7, 7};
  int32_t count[2] = {9, 9};
  using Kind = Initial::Kind;
  Tensor all[] = {
      tensor("w", Role::parameter, Type::f32, {{"a", 4, 1, 3, {}}, {"b", 3, 0, 3, {}}}, weight, {Kind::normal, 0, 1}),
      tensor("g", Role::parameter, Type::f32, {{"a", 4, 0, 4, {}}}, gain, {Kind::ones}),
      tensor("i", Role::input, Type::f32, {{"n", 2, 0, 2, {}}}, input, {}),
      tensor("s", Role::state, Type::f64, {{"n", 3, 0, 3, {}}}, state, {}),
      tensor("c", Role::state, Type::i32, {{"n", 2, 0, 2, {}}}, count, {Kind::constant, 4, 0})};
  initialise(all, 42);
  const RandomKey key(42, "w");
  for (int e = 0; e < 6; ++e) EXPECT_EQ(weight[e], normal<float>(key, 3 + e));
  for (const float x : gain) EXPECT_EQ(x, 1);
  for (const float x : input) EXPECT_EQ(x, 5);
  for (const double x : state) EXPECT_EQ(x, 0);
  for (const int32_t x : count) EXPECT_EQ(x, 4);
}

/// A type of 16 bits begins with the numbers of f32, rounded.
template <class T>
void expect_rounded_first_values() {
  T random[6], half[2], zero[2];
  using Kind = Initial::Kind;
  Tensor all[] = {tensor("n", Role::parameter, type_of<T>, {{"a", 4, 1, 3, {}}, {"b", 3, 0, 3, {}}}, random,
                         {Kind::truncated_normal, 0, 1}),
                  tensor("h", Role::parameter, type_of<T>, {{"n", 2, 0, 2, {}}}, half, {Kind::constant, 0.5, 0}),
                  tensor("z", Role::state, type_of<T>, {{"n", 2, 0, 2, {}}}, zero, {})};
  initialise(all, 42);
  float wide[6];
  const Part parts[] = {{4, 1, 3}, {3, 0, 3}};
  fill_truncated_normal(wide, parts, RandomKey(42, "n"), 0, 1);
  for (int e = 0; e < 6; ++e) EXPECT_EQ(random[e].bits, T(wide[e]).bits);
  for (const T x : half) EXPECT_EQ(static_cast<float>(x), 0.5F);
  for (const T x : zero) EXPECT_EQ(x.bits, 0);
}

TEST(Initialise, RoundsToBf16) { expect_rounded_first_values<Bfloat16>(); }
TEST(Initialise, RoundsToF16) { expect_rounded_first_values<Float16>(); }

TEST(Lookup, PartsAddUpToTheWhole) {
  constexpr int64_t rows = 10, width = 3, n = 8;
  const int32_t ids[n] = {3, 0, 9, 3, 5, 5, 2, 7};
  std::vector<float> table(rows * width);
  std::iota(table.begin(), table.end(), 1.0f);
  std::vector<float> sum(n * width), part(n * width, -1);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 4}, {4, 4}, {4, 10}}) {
    take(Lookup{.begin = begin, .end = end, .width = width}, table.data() + begin * width, ids, n, part.data());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < width; ++c) EXPECT_EQ(sum[i * width + c], table[ids[i] * width + c]);

  std::vector<float> d_whole(rows * width), d_part(6 * width);
  scatter_add(Lookup{.begin = 0, .end = rows, .width = width}, d_whole.data(), ids, n, sum.data());
  scatter_add(Lookup{.begin = 4, .end = 10, .width = width}, d_part.data(), ids, n, sum.data());
  EXPECT_EQ(d_whole[3 * width], 2 * table[3 * width]);
  for (size_t i = 0; i < d_part.size(); ++i) EXPECT_EQ(d_part[i], d_whole[4 * width + i]);
}

TEST(Rate, Schedules) {
  EXPECT_EQ(constant(0.5, 0, 7), 0.5);
  EXPECT_EQ(constant(0.5, 8, 2), 0.125);
  EXPECT_EQ(constant(0.5, 8, 9), 0.5);
  EXPECT_DOUBLE_EQ(cosine(1, 10, 110, 0.1, 5), 0.5);
  EXPECT_DOUBLE_EQ(cosine(1, 10, 110, 0.1, 10), 1);
  EXPECT_DOUBLE_EQ(cosine(1, 10, 110, 0.1, 60), 0.55);
  EXPECT_DOUBLE_EQ(cosine(1, 10, 110, 0.1, 110), 0.1);
  EXPECT_DOUBLE_EQ(cosine(1, 10, 110, 0.1, 500), 0.1);
  EXPECT_DOUBLE_EQ(cosine(1, 0, 1, 0, 1), 0);
  EXPECT_DOUBLE_EQ(linear(1, 10, 110, 0, 60), 0.5);
  EXPECT_DOUBLE_EQ(linear(1, 10, 110, 0.2, 200), 0.2);
  EXPECT_DOUBLE_EQ(inverse_sqrt(2, 16, 8), 1);
  EXPECT_DOUBLE_EQ(inverse_sqrt(2, 16, 64), 1);
  EXPECT_DOUBLE_EQ(inverse_sqrt(2, 0, 4), 1);
  EXPECT_EQ(stepped(1, 0, 30, 0.5, 0, 30), 1);
  EXPECT_EQ(stepped(1, 0, 30, 0.5, 0, 31), 0.5);
  EXPECT_EQ(stepped(1, 0, 30, 0.5, 0, 91), 0.125);
  EXPECT_EQ(stepped(1, 0, 30, 0.5, 1, 91), 0.5);
  EXPECT_EQ(stepped(1, 8, 30, 0.5, 0, 4), 0.5);
  EXPECT_EQ(stepped(1, 8, 30, 0.5, 0, 37), 1);
  EXPECT_EQ(stepped(1, 8, 30, 0.5, 0, 38), 0.5);
  EXPECT_EQ(stepped(1, 0, 1, 0.5, 0, 1'000'000'000), 0);
}

}  // namespace
}  // namespace meshrt
