// math.h: elementary functions that give the same bits on every host: branch-free polynomials of fused multiply-adds
// that a compiler vectorises in a plain loop. f32 within 2 units in the last place, f64 within 4, over the whole range.
//
// Compile with -ffp-contract=off -fno-math-errno and with hardware fma. All functions take float or double, pass NaN
// on, and are always inlined, so that objects built for different instruction sets can be linked together.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#define MESHRT_INLINE [[gnu::always_inline]] inline

namespace meshrt {

// ---- the form of a number, and selection without branches ----

namespace detail {

template <class T>
struct Form;
template <>
struct Form<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float shifter = 0x1.8p23f;  // adding it rounds to an integer, which then lies in the lowest bits
};
template <>
struct Form<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double shifter = 0x1.8p52;
};
template <class T>
using Bits = typename Form<T>::Bits;

template <class T>
inline constexpr bool single = std::is_same_v<T, float>;
template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr Bits<T> sign_bit = Bits<T>(1) << (sizeof(T) * 8 - 1);

template <class T>
MESHRT_INLINE Bits<T> bits(T x) {
  return std::bit_cast<Bits<T>>(x);
}
template <class T>
MESHRT_INLINE T number(Bits<T> x) {
  return std::bit_cast<T>(x);
}

// `yes` where the condition holds, else `no`; both are computed. A ternary would let the compiler make a branch, which
// then cannot be vectorised.
template <class T>
MESHRT_INLINE T select(bool condition, T yes, T no) {
  const Bits<T> mask = Bits<T>(0) - Bits<T>(condition);
  return number<T>((bits(yes) & mask) | (bits(no) & ~mask));
}

MESHRT_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MESHRT_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// c0 + x (c1 + x (c2 + ...))
template <class T>
MESHRT_INLINE T polynomial(T, T c0) {
  return c0;
}
template <class T, class... Rest>
MESHRT_INLINE T polynomial(T x, T c0, Rest... rest) {
  return fma(x, polynomial(x, rest...), c0);
}

}  // namespace detail

// The float nearest to x. gcc 12, where it makes vectors of straight code, leaves out the rounding of double(float(x));
// it does not look through an asm.
MESHRT_INLINE float rounded(double x) {
  float result = static_cast<float>(x);
#if defined(__x86_64__)
  asm("" : "+x"(result));
#elif defined(__aarch64__)
  asm("" : "+w"(result));
#endif
  return result;
}

/// |x|, of integers too.
template <class T>
MESHRT_INLINE T abs(T x) {
  if constexpr (std::is_integral_v<T>) return x < 0 ? -x : x;
  else return detail::number<T>(detail::bits(x) & ~detail::sign_bit<T>);
}
/// |magnitude| with the sign of `sign`.
template <class T>
MESHRT_INLINE T copy_sign(T magnitude, T sign) {
  using namespace detail;
  return number<T>((bits(magnitude) & ~sign_bit<T>) | (bits(sign) & sign_bit<T>));
}
/// -1, 0 or 1.
template <class T>
MESHRT_INLINE T sign(T x) {
  const T of = T(x > 0) - T(x < 0);
  if constexpr (std::is_integral_v<T>) return of;
  else return detail::select(x == x, of, x);
}
/// The larger of two; `a` where they are equal or one is NaN.
template <class T>
MESHRT_INLINE T maximum(T a, T b) {
  return a < b ? b : a;
}
/// `yes` where the condition holds, else `no`; both are computed, so that loops over this become vector instructions.
template <class T>
MESHRT_INLINE T where(bool condition, T yes, T no) {
  return detail::select(condition, yes, no);
}
/// The smaller of two; `a` where they are equal or one is NaN.
template <class T>
MESHRT_INLINE T minimum(T a, T b) {
  return b < a ? b : a;
}
/// What is left of a / b with the quotient cut toward zero: the sign of a. Of integers 0 where b is 0.
template <class T>
MESHRT_INLINE T remainder(T a, T b) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) return b == 0 || b == -1 ? T(0) : T(a % b);
  else if constexpr (std::is_integral_v<T>) return b == 0 ? T(0) : T(a % b);
  else if constexpr (detail::single<T>) return __builtin_fmodf(a, b);
  else return __builtin_fmod(a, b);
}
/// The nearest integer; of two that are as near, the even one.
template <class T>
MESHRT_INLINE T round(T x) {
  using namespace detail;
  constexpr T integers = T(Bits<T>(1) << Form<T>::mantissa);  // from here on every number is one
  const T a = abs(x), nearest = copy_sign((a + integers) - integers, x);
  return select(a < integers, nearest, x);
}
/// The largest integer not above x.
template <class T>
MESHRT_INLINE T floor(T x) {
  const T nearest = round(x);
  return copy_sign(nearest - detail::select(nearest > x, T(1), T(0)), x);
}
template <class T>
MESHRT_INLINE T square(T x) {
  return x * x;
}
template <class T>
MESHRT_INLINE T reciprocal(T x) {
  return 1 / x;
}
template <class T>
MESHRT_INLINE T sqrt(T x) {
  if constexpr (detail::single<T>) return __builtin_sqrtf(x);
  else return __builtin_sqrt(x);
}
/// 1 / sqrt(x), rounded twice.
template <class T>
MESHRT_INLINE T rsqrt(T x) {
  return 1 / sqrt(x);
}

// ---- exponential and logarithm ----

namespace detail {

// x = n ln 2 + r with |r| <= ln 2 / 2. e^r - 1 = rest; the bits of n, shifted to the exponent, are `power`.
template <class T>
struct Exponential {
  T rest;
  Bits<T> power;
};
template <class T>
MESHRT_INLINE Exponential<T> split_exponential(T x) {
  const T rounded = fma(x, T(0x1.71547652b82fep0), Form<T>::shifter), n = rounded - Form<T>::shifter;
  T r, p;
  if constexpr (single<T>) {
    r = fma(n, -0x1.62e430p-1f, x);
    r = fma(n, 0x1.05c610p-29f, r);
    p = polynomial(r, 0.5f, 0.166665181517601f, 0.04166620224714279f, 0.008369024842977524f, 0.001395073952153325f);
  } else {
    r = fma(n, -0x1.62e42fefa39efp-1, x);
    r = fma(n, -0x1.abc9e3b39803fp-56, r);
    p = polynomial(r, 0.5000000000000013, 0.166666666666667, 0.04166666666651313, 0.008333333333306691,
                   0.0013888888947675984, 0.0001984126991848043, 2.4801489205245075e-05, 2.7557215336827575e-06,
                   2.763156018522646e-07, 2.5118161558394677e-08);
  }
  return {fma(r * r, p, r), bits(rounded) << Form<T>::mantissa};
}

}  // namespace detail

/// e^x. 0 where the result would be below the smallest normal number (x < -87.3 or -708.3), inf above the largest.
template <class T>
MESHRT_INLINE T exp(T x) {
  using namespace detail;
  constexpr T low = single<T> ? T(-87.33654f) : T(-708.3964185322641);
  constexpr T high = single<T> ? T(88.72283f) : T(709.782712893384);
  const auto [rest, power] = split_exponential(x);
  const T inside = select(x < low, T(0), number<T>(bits(1 + rest) + power));
  return select(!(x <= high), x + infinity<T>, inside);
}

/// e^x - 1, with all its digits where x is near 0.
template <class T>
MESHRT_INLINE T expm1(T x) {
  using namespace detail;
  constexpr T low = single<T> ? T(-20) : T(-40);  // -1 to the last place from here on
  constexpr T high = single<T> ? T(88.72283f) : T(709.782712893384);
  const auto [rest, power] = split_exponential(select(x < low, low, x));
  // Half of the result, for 2^n is infinite at the upper end.
  const T half = number<T>(bits(T(0.5)) + power), y = 2 * fma(rest, half, half - T(0.5));
  return select(!(x <= high), x + infinity<T>, copy_sign(y, x));
}

namespace detail {

// x = 2^exponent (1 + fraction) with 1 + fraction in [sqrt(1/2), sqrt(2)), for positive finite x, denormal ones too.
template <class T>
struct Logarithm {
  T exponent, fraction;
};
template <class T>
MESHRT_INLINE Logarithm<T> split_logarithm(T x) {
  constexpr int mantissa = Form<T>::mantissa;
  constexpr T smallest = std::numeric_limits<T>::min(), lift = T(Bits<T>(1) << (mantissa + 1));
  constexpr Bits<T> one = std::bit_cast<Bits<T>>(T(1)), root = std::bit_cast<Bits<T>>(T(0x1.6a09e667f3bcdp-1));
  constexpr T integer = T(Bits<T>(1) << mantissa);  // its lowest bit counts 1
  const bool denormal = x < smallest;
  const Bits<T> raised = bits(x * select(denormal, lift, T(1))) + (one - root);
  const Bits<T> fraction = raised & ((Bits<T>(1) << mantissa) - 1);
  const T biased = number<T>((raised >> mantissa) | bits(integer));
  const T bias = select(denormal, integer + (Form<T>::bias + mantissa + 1), integer + Form<T>::bias);
  return {biased - bias, number<T>(fraction + root) - 1};
}

}  // namespace detail

/// Natural logarithm; -inf for 0, NaN below.
template <class T>
MESHRT_INLINE T log(T x) {
  using namespace detail;
  const auto [e, f] = split_logarithm(x);
  T y;
  if constexpr (single<T>) {
    const float p =
        polynomial(f, 0.33333316445350647f, -0.25000816583633423f, 0.20002302527427673f, -0.16624347865581512f,
                   0.14180710911750793f, -0.13130469620227814f, 0.1288580447435379f, -0.0785985141992569f);
    const float small = fma(f * f, fma(f, p, -0.5f), fma(e, -0x1.05c610p-29f, f));
    y = fma(e, 0x1.62e430p-1f, small);
  } else {
    const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    const double p = z * polynomial(z, 0.6666666666666735, 0.3999999999940746, 0.2857142874414593, 0.22222198378089608,
                                    0.18183575183258044, 0.153137553395941, 0.14799070125609387);
    const double low = fma(s, half + p, e * 0x1.abc9e3b39803fp-56);
    y = fma(e, 0x1.62e42fefa39efp-1, f - (half - low));
  }
  const T nothing = select(x == 0, -infinity<T>, std::numeric_limits<T>::quiet_NaN());
  return select(x > 0, select(x < infinity<T>, y, x), nothing);
}

/// Natural logarithm of 1 + x, with all its digits where x is near 0; -inf for -1, NaN below.
template <class T>
MESHRT_INLINE T log1p(T x) {
  using namespace detail;
  const T u = 1 + x, lost = select(x < 1, x - (u - 1), 1 - (u - x));  // what the sum rounds off
  const T y = log(u), whole = copy_sign(y + lost / u, x);
  return select((x > -1) & (x < infinity<T>), whole, y);
}

// ---- functions made of them ----

/// 1 / (1 + e^-x)
template <class T>
MESHRT_INLINE T sigmoid(T x) {
  return 1 / (1 + exp(-x));
}

/// Hyperbolic tangent as (e^2x - 1) / (e^2x + 1), through e^2x - 1, so that nothing cancels near 0.
template <class T>
MESHRT_INLINE T tanh(T x) {
  using namespace detail;
  constexpr T enough = single<T> ? T(10) : T(20);
  const T a = abs(x), t = select(a > enough, enough, a);
  const auto [rest, power] = split_exponential(2 * t);
  const T scale = number<T>(bits(T(1)) + power), e = fma(rest, scale, scale - 1);
  const T far = e / (e + 2);
  if constexpr (!single<T>) return copy_sign(far, x);
  const T w = x * x;
  const T near = fma(a * w,
                     polynomial(w, T(-0.3333333134651184), T(0.13333247601985931), T(-0.053952474147081375),
                                T(0.021734438836574554), T(-0.00826708972454071), T(0.0022310633212327957)),
                     a);
  return copy_sign(select(a < T(0.6), near, far), x);
}

namespace detail {

// erfc(z) e^(z^2) for z >= 0: t P(2 t - 1) with t = a / (a + z).
template <class T>
MESHRT_INLINE T scaled_complement(T z) {
  if constexpr (single<T>) {
    const float t = 3 / (3 + z), q = fma(t, 2.0f, -1.0f);
    return t * polynomial(q, 0.35800230503082275f, 0.2944648265838623f, 0.19674277305603027f, 0.10348869115114212f,
                          0.03984295576810837f, 0.008946449495851994f, -0.00040840328438207507f,
                          -0.0010265969904139638f, -0.00016186134598683566f, 0.00010885971278185025f);
  } else {
    const double t = 4 / (4 + z), q = fma(t, 2.0, -1.0);
    return t * polynomial(q, 0.27399891525012277, 0.2441371822702205, 0.19330217556630933, 0.1352134578283088,
                          0.082712896969499, 0.043502734309981306, 0.01909537872745355, 0.006592513335144057,
                          0.0015280139119828613, 7.023971569876108e-05, -0.00011376315415777216,
                          -4.4203201283413274e-05, -9.088826097637768e-07, 4.7152160536138235e-06,
                          1.1739117315019907e-06, -3.560652852099475e-07, -2.122388895676614e-07, 1.898766981466764e-08,
                          3.20127571868006e-08, -4.456725002346294e-10, -4.657762856488337e-09, 2.0876394665784508e-10,
                          5.291373962867393e-10, -1.0517328446514326e-10);
  }
}

}  // namespace detail

/// The error function: an odd polynomial up to 1, 1 - erfc(|x|) beyond.
template <class T>
MESHRT_INLINE T erf(T x) {
  using namespace detail;
  constexpr T enough = single<T> ? T(4) : T(6);
  const T a = abs(x), z = select(a > enough, enough, a), w = x * x;
  T p;
  if constexpr (single<T>) {
    p = polynomial(w, 0.12837916612625122f, -0.3761262595653534f, 0.11283599585294724f, -0.02685440145432949f,
                   0.005189443938434124f, -0.0008019942906685174f, 7.88584366091527e-05f);
  } else {
    p = polynomial(w, 0.12837916709551256, -0.37612638903183543, 0.11283791670945158, -0.02686617064326007,
                   0.005223977607285171, -0.000854832598281977, 0.00012055295108130111, -1.4924740465988e-05,
                   1.6447464545570146e-06, -1.6208759410088684e-07, 1.372113572040638e-08, -7.797684437377906e-10);
  }
  const T far = copy_sign(1 - exp(-z * z) * scaled_complement(z), x);
  return select(a < 1, fma(x, p, x), far);
}

// ---- sine and cosine ----

namespace detail {

// x = quarter pi/2 + r with |r| <= pi/4; gives sin of r + turns pi/2. The quarters of a float are counted in double,
// too: from 2^20 on float is too short for their product with pi/2.
template <class T>
MESHRT_INLINE T sine_of_quarters(T x, int turns) {
  constexpr double shifter = Form<double>::shifter;
  const double rounded = fma(static_cast<double>(x), 0x1.45f306dc9c883p-1, shifter), n = rounded - shifter;
  const Bits<T> quarter = static_cast<Bits<T>>(bits(rounded)) + Bits<T>(turns);
  const double near = fma(n, -0x1.1a62633145c07p-54, fma(n, -0x1.921fb54442d18p0, static_cast<double>(x)));
  T r, s, c;
  if constexpr (single<T>) {
    r = static_cast<float>(near);
    const float w = r * r;
    s = fma(
        r * w,
        polynomial(w, -0.1666666716337204f, 0.008333329111337662f, -0.00019839327433146536f, 2.7182370558875846e-06f),
        r);
    c = fma(
        w * w,
        polynomial(w, 0.0416666679084301f, -0.0013888883404433727f, 2.479951217537746e-05f, -2.720954626056482e-07f),
        fma(w, -0.5f, 1.0f));
  } else {
    r = fma(n, 0x1.f1976b7ed8fbcp-110, near);
    const double w = r * r;
    s = fma(r * w,
            polynomial(w, -0.16666666666666632, 0.008333333333322314, -0.00019841269829725164, 2.7557313662051795e-06,
                       -2.5050753264511284e-08, 1.5896504983151597e-10),
            r);
    c = fma(w * w,
            polynomial(w, 0.0416666666666666, -0.001388888888887399, 2.4801587289395082e-05, -2.7557314326070805e-07,
                       2.08757195637335e-09, -1.1359448926482873e-11),
            fma(w, -0.5, 1.0));
  }
  const Bits<T> odd = Bits<T>(0) - (quarter & 1), flip = (quarter & 2) << (sizeof(T) * 8 - 2);
  const T y = number<T>(((bits(c) & odd) | (bits(s) & ~odd)) ^ flip);
  return select(abs(x) < T(0x1p40), y, std::numeric_limits<T>::quiet_NaN());
}

}  // namespace detail

/// Sine. Good for |x| < 2^40; NaN from there on: the next float is thousands of turns away.
template <class T>
MESHRT_INLINE T sin(T x) {
  return detail::sine_of_quarters(x, 0);
}
/// Cosine, for the same x.
template <class T>
MESHRT_INLINE T cos(T x) {
  return detail::sine_of_quarters(x, 1);
}

// ---- power ----

namespace detail {

// |x|^y for finite positive |x|, as e^(y log |x|) with the logarithm and the product in two numbers, high + low.
MESHRT_INLINE double positive_power(double x, double y) {
  const auto [e, f] = split_logarithm(x);
  // log(1 + f) = 2 s + 2/3 s^3 + s^5 p(s^2), s = f / (2 + f); the first two terms in two numbers.
  const double d = 2 + f, d_low = f - (d - 2), s = f / d, s_low = (fma(-s, d, f) - s * d_low) / d;
  const double z = s * s, z_low = fma(s, s, -z) + 2 * s * s_low;
  const double cube = s * z, cube_low = fma(s, z, -cube) + (s * z_low + s_low * z);
  const double third = cube * (2.0 / 3),
               third_low = fma(cube, 2.0 / 3, -third) + (cube_low * (2.0 / 3) + cube * 0x1.5555555555555p-55);
  const double p = cube * z *
                   polynomial(z, 0.39999999999999974, 0.28571428571445334, 0.22222222217481785, 0.18181818877030234,
                              0.1538455641239855, 0.133363350800821, 0.11674459637906066, 0.11992004972652134);
  const double part = fma(e, 0x1.62e42fefa3800p-1, 2 * s);  // the constant's 11 zero bits make the product exact
  const double part_low = 2 * s - (part - e * 0x1.62e42fefa3800p-1);
  const double most = part + third, most_low = third - (most - part);
  const double high = most + p, high_low = p - (high - most);
  const double low = part_low + (most_low + (high_low + (fma(e, 0x1.ef35793c76730p-45, 2 * s_low) + third_low)));
  const double power = y * high, power_low = fma(y, high, -power) + y * low;
  return exp(power) * (1 + select(abs(power) < 800, power_low, 0.0));
}
// Twice the digits of a float are enough to keep y log |x| exact to the last place.
MESHRT_INLINE float positive_power(float x, float y) {
  return static_cast<float>(exp(static_cast<double>(y) * log(static_cast<double>(x))));
}

}  // namespace detail

/// x^y with the signs and special values of std::pow: a negative x needs an integer y (else NaN), 0^0 = 1.
template <class T>
MESHRT_INLINE T pow(T x, T y) {
  using namespace detail;
  const T a = abs(x), half = y / 2;
  const bool integer = floor(y) == y, odd = integer & (floor(half) != half);
  const bool vast = abs(y) == infinity<T>;
  // Of 0 and inf only y's sign matters, of an infinite y only whether |x| lies above or below 1.
  const bool grows = (a > 1) == (y > 0);
  const T limit = select(grows, infinity<T>, T(0));
  T r = select((a == 0) | (a == infinity<T>) | vast, limit, positive_power(a, y));
  r = select((a == 1) | (y == 0), T(1), r);
  r = select((a != a) | (y != y), x + y, r);
  r = select((x < 0) & !integer & (a < infinity<T>), std::numeric_limits<T>::quiet_NaN(), r);
  r = select(odd, copy_sign(r, x), r);
  return select((x == 1) | (y == 0), T(1), r);
}

}  // namespace meshrt
