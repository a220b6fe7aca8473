// The elementary functions against long double: the largest error in units of the last place, and what happens at the
// ends.
#include "meshrt/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "meshrt/activation.h"

namespace meshrt {
namespace {

using Exact = long double;

// |got - want| in units of the last place of `want` rounded to T.
template <class T>
double units(T got, Exact want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e30;
  int exponent = 0;
  (void)std::frexp(rounded, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return double(std::abs(Exact(got) - want) / std::ldexp(Exact(1), exponent - std::numeric_limits<T>::digits));
}

// Half of the points evenly from low to high, half crowding towards 0 (or towards low, if 0 is outside).
template <class T, class F, class G>
void expect_within(const char* name, double bound, double low, double high, F f, G exact) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> unit;
  double worst = 0;
  T at = 0;
  for (int i = 0; i < 200000; ++i) {
    double x = low + (high - low) * unit(random);
    if (i % 2) {
      const double small = std::exp(-27 * unit(random));
      x = low < 0 ? (i % 4 == 1 ? high : low) * small : std::max(low, high * small);
    }
    const T value = static_cast<T>(x);
    const double error = units<T>(f(value), exact(Exact(value)));
    if (error > worst) worst = error, at = value;
  }
  std::printf("  %-16s %s  %.3f units at %.9g, bound %g\n", name, sizeof(T) == 4 ? "f32" : "f64", worst, double(at),
              bound);
  EXPECT_LE(worst, bound) << name << " at " << double(at);
}

template <class T>
class Math : public testing::Test {};
using Numbers = testing::Types<float, double>;
TYPED_TEST_SUITE(Math, Numbers);

constexpr Exact root_half = 0.70710678118654752440084436210484903928L, pi = 3.14159265358979323846264338327950288L;
Exact exact_sigmoid(Exact x) { return 1 / (1 + std::exp(-x)); }
Exact exact_normal(Exact x) { return std::erfc(-x * root_half) / 2; }
Exact exact_bell(Exact x) { return std::exp(-x * x / 2) * root_half / std::sqrt(pi); }

TYPED_TEST(Math, Elementary) {
  using T = TypeParam;
  constexpr bool f32 = sizeof(T) == 4;
  const double bound = f32 ? 2 : 4;
#define CHECK(name, low, high) \
  expect_within<T>(            \
      #name, bound, low, high, [](T x) { return meshrt::name(x); }, [](Exact x) { return std::name(x); })
  CHECK(exp, f32 ? -87.33 : -708.39, f32 ? 88.72 : 709.78);
  CHECK(log, 0.4, 2.5);
  CHECK(log, 0, f32 ? 3e38 : 1e308);
  CHECK(tanh, -25, 25);
  CHECK(tanh, -1, 1);
  CHECK(erf, -7, 7);
  CHECK(erf, -1.5, 1.5);
  CHECK(sin, -0x1p40, 0x1p40);
  CHECK(sin, -1e5, 1e5);
  CHECK(sin, -4, 4);
  CHECK(cos, -0x1p40, 0x1p40);
  CHECK(cos, -1e5, 1e5);
  CHECK(cos, -4, 4);
  CHECK(expm1, f32 ? -87 : -700, f32 ? 88.72 : 709.78);
  CHECK(expm1, -1, 1);
  CHECK(log1p, -0.999, 1);
  CHECK(log1p, 0, f32 ? 3e38 : 1e308);
  CHECK(sqrt, 0, 1e30);
  CHECK(floor, -1e6, 1e6);
#undef CHECK
  expect_within<T>(
      "round", 0, -1e6, 1e6, [](T x) { return round(x); }, [](Exact x) { return std::nearbyint(x); });
  expect_within<T>(
      "rsqrt", bound, 1e-30, 1e30, [](T x) { return rsqrt(x); }, [](Exact x) { return 1 / std::sqrt(x); });
}

TYPED_TEST(Math, Activations) {
  using T = TypeParam;
  expect_within<T>(
      "sigmoid", 3, -80, 80, [](T x) { return sigmoid(x); }, exact_sigmoid);
  expect_within<T>(
      "silu", 3, -80, 80, [](T x) { return silu(x); }, [](Exact x) { return x * exact_sigmoid(x); });
  expect_within<T>(
      "softplus", 4, -80, 120, [](T x) { return softplus(x); },
      [](Exact x) { return std::max(x, Exact(0)) + std::log1p(std::exp(-std::abs(x))); });
  expect_within<T>(
      "gelu", 12, -3, 10, [](T x) { return gelu(x); }, [](Exact x) { return x * exact_normal(x); });
  expect_within<T>(
      "gelu_tanh", 16, -3, 10, [](T x) { return gelu_tanh(x); },
      [](Exact x) { return x * exact_sigmoid(2 * std::sqrt(2 / pi) * (x + 0.044715L * x * x * x)); });
  // Derivatives cross 0, so the bound is absolute: in units of 1.
  const auto check = [&](const char* name, auto f, auto exact) {
    double worst = 0;
    for (int i = -4000; i <= 4000; ++i) {
      const T x = static_cast<T>(i * 0.005);
      worst = std::max(worst, double(std::abs(Exact(f(x)) - exact(Exact(x))) / std::numeric_limits<T>::epsilon()));
    }
    std::printf("  %-16s %s  %.3f epsilon, bound 8\n", name, sizeof(T) == 4 ? "f32" : "f64", worst);
    EXPECT_LE(worst, 8) << name;
  };
  check(
      "gelu_slope", [](T x) { return gelu_slope(x); }, [](Exact x) { return exact_normal(x) + x * exact_bell(x); });
  check(
      "silu_slope", [](T x) { return silu_slope(x); },
      [](Exact x) {
        const Exact s = exact_sigmoid(x);
        return s * (1 + x * (1 - s));
      });
  check(
      "gelu_tanh_slope", [](T x) { return gelu_tanh_slope(x); },
      [](Exact x) {
        const Exact c = 2 * std::sqrt(2 / pi), s = exact_sigmoid(c * (x + 0.044715L * x * x * x));
        return s + x * s * (1 - s) * c * (1 + 3 * 0.044715L * x * x);
      });
}

TYPED_TEST(Math, PowerIsAccurate) {
  using T = TypeParam;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(-1, 1);
  constexpr bool f32 = sizeof(T) == 4;
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const T x = static_cast<T>(std::exp(unit(random) * (i % 2 ? 1 : f32 ? 80 : 600)));
    const T y = static_cast<T>(unit(random) * (i % 2 ? (f32 ? 80 : 600) : i % 4 ? 3 : 1));
    const Exact want = std::pow(Exact(x), Exact(y));
    if (want < std::numeric_limits<T>::min()) continue;
    worst = std::max(worst, units<T>(meshrt::pow(x, y), want));
  }
  std::printf("  pow              %s  %.3f units, bound %d\n", f32 ? "f32" : "f64", worst, f32 ? 2 : 4);
  EXPECT_LE(worst, f32 ? 2 : 4);
}

// The same value, or both NaN; zeros with the same sign unless `any_zero`.
template <class T>
bool same(T got, T want, bool any_zero = false) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (got == 0 && want == 0) return any_zero || std::signbit(got) == std::signbit(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::abs(got - want) <= std::abs(want) * T(1e-6) && std::signbit(got) == std::signbit(want);
}

TYPED_TEST(Math, PowerHasTheSignsOfTheStandardOne) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T points[] = {0,       T(-0.0), 1,   -1,   2,   -2,      3,        -3,          T(0.5),
                      T(-0.5), T(-1.5), inf, -inf, nan, T(1e15), T(-1e15), T(123456789)};
  for (const T x : points)
    for (const T y : points) {
      const T want = std::pow(x, y);
      if (want != 0 && std::abs(want) < std::numeric_limits<T>::min()) continue;  // flushed to 0
      EXPECT_TRUE(same(meshrt::pow(x, y), want)) << x << " ^ " << y << " = " << meshrt::pow(x, y) << ", not " << want;
    }
}

TYPED_TEST(Math, Ends) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T big = std::numeric_limits<T>::max(), smallest = std::numeric_limits<T>::denorm_min();
  const auto check = [&](const char* name, T (*got)(T), T (*want)(T), bool any_zero) {
    for (const T x : {T(0), T(-0.0), T(1), T(-1), inf, -inf, nan, big, -big, T(1e4), T(-1e4), T(100), T(-100)})
      EXPECT_TRUE(same(got(x), want(x), any_zero)) << name << " of " << x << " is " << got(x) << ", not " << want(x);
  };
  check(
      "exp", [](T x) { return meshrt::exp(x); },
      [](T x) {
        const T y = std::exp(x);
        return y < std::numeric_limits<T>::min() ? T(0) : y;
      },
      false);
  check(
      "log", [](T x) { return meshrt::log(x); }, [](T x) { return std::log(x); }, false);
  check(
      "tanh", [](T x) { return meshrt::tanh(x); }, [](T x) { return std::tanh(x); }, false);
  check(
      "erf", [](T x) { return meshrt::erf(x); }, [](T x) { return std::erf(x); }, false);
  check(
      "floor", [](T x) { return meshrt::floor(x); }, [](T x) { return std::floor(x); }, false);
  check(
      "round", [](T x) { return meshrt::round(x); }, [](T x) { return std::nearbyint(x); }, false);
  check(
      "expm1", [](T x) { return meshrt::expm1(x); }, [](T x) { return std::expm1(x); }, false);
  check(
      "log1p", [](T x) { return meshrt::log1p(x); }, [](T x) { return std::log1p(x); }, false);
  check(
      "sin", [](T x) { return meshrt::sin(x); }, [](T x) { return std::abs(x) < 0x1p40 ? std::sin(x) : T(NAN); }, true);
  check(
      "cos", [](T x) { return meshrt::cos(x); }, [](T x) { return std::abs(x) < 0x1p40 ? std::cos(x) : T(NAN); }, true);
  check(
      "sigmoid", [](T x) { return meshrt::sigmoid(x); }, [](T x) { return 1 / (1 + std::exp(-x)); }, true);
  EXPECT_LE(units<T>(meshrt::log(smallest), std::log(Exact(smallest))), 1);
  EXPECT_EQ(meshrt::exp(T(-1e4)), T(0));
  EXPECT_TRUE(std::isnan(meshrt::log(T(-1))));
  EXPECT_TRUE(std::isnan(meshrt::gelu(nan)) && std::isnan(meshrt::relu(nan)) && std::isnan(meshrt::silu(nan)));
  EXPECT_EQ(meshrt::gelu(T(100)), T(100));
  EXPECT_EQ(meshrt::gelu(T(-100)), T(0));
  EXPECT_EQ(meshrt::sign(T(-3)), T(-1));
  EXPECT_TRUE(std::isnan(meshrt::sign(nan)) && std::isnan(meshrt::softplus(nan)));
  EXPECT_EQ(meshrt::softplus(T(100)), T(100));
  EXPECT_EQ(meshrt::softplus(-inf), T(0));
  EXPECT_EQ(meshrt::softplus(inf), inf);
  for (const T half : {T(0.5), T(-0.5), T(1.5), T(2.5), T(-2.5)})
    EXPECT_EQ(meshrt::round(half), std::nearbyint(half)) << half;
  EXPECT_EQ(meshrt::abs(-3), 3);
}

}  // namespace
}  // namespace meshrt
