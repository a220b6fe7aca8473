#include "frontend/rational.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>

namespace mesh {

namespace {

using Wide = __int128;

bool fits(Wide value) {
  return value >= std::numeric_limits<std::int64_t>::min() && value <= std::numeric_limits<std::int64_t>::max();
}

Wide gcd(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

Wide floor_divide(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

}  // namespace

std::optional<Rational> Rational::make(Wide numerator, Wide denominator) {
  if (denominator == 0) return std::nullopt;
  const Wide divisor = gcd(numerator, denominator) * (denominator < 0 ? -1 : 1);
  numerator /= divisor;
  denominator /= divisor;
  if (!fits(numerator) || !fits(denominator)) return std::nullopt;
  Rational result;
  result.numerator_ = static_cast<std::int64_t>(numerator);
  result.denominator_ = static_cast<std::int64_t>(denominator);
  return result;
}

std::optional<Rational> Rational::parse(std::string_view literal) {
  if (literal.starts_with('-')) {
    const std::optional<Rational> positive = parse(literal.substr(1));
    return positive ? subtract(0, *positive) : std::nullopt;
  }
  const Wide limit = Wide{1} << 120;
  Wide digits = 0;
  int exponent = 0;
  bool fraction = false;
  std::size_t at = 0;
  for (; at < literal.size() && literal[at] != 'e' && literal[at] != 'E'; ++at) {
    if (literal[at] == '_') continue;
    if (literal[at] == '.') {
      fraction = true;
    } else {
      if (digits > limit / 10) return std::nullopt;
      digits = digits * 10 + (literal[at] - '0');
      exponent -= fraction ? 1 : 0;
    }
  }
  if (at < literal.size()) {
    const bool negative = literal[++at] == '-';
    if (literal[at] == '-' || literal[at] == '+') ++at;
    int written = 0;
    for (; at < literal.size() && written < 1000; ++at) written = written * 10 + (literal[at] - '0');
    exponent += negative ? -written : written;
  }
  Wide scale = 1;
  for (int step = exponent < 0 ? -exponent : exponent; step > 0 && digits != 0; --step) {
    if (exponent < 0 && digits % 10 == 0) {
      digits /= 10;
    } else {
      if (scale > limit / 10) return std::nullopt;
      scale *= 10;
    }
  }
  if (exponent >= 0 && digits != 0 && scale > limit / digits) return std::nullopt;
  return exponent < 0 ? make(digits, scale) : make(digits * scale, 1);
}

std::string Rational::text() const {
  if (whole()) return std::to_string(numerator_);
  // A denominator of twos and fives has an end as a decimal.
  for (Wide scale = 10, places = 1; places <= 6; scale *= 10, ++places) {
    if (scale % denominator_ != 0) continue;
    const Wide scaled = Wide{numerator_} * (scale / denominator_);
    const Wide magnitude = scaled < 0 ? -scaled : scaled;
    return fmt::format("{}{}.{:0{}}", scaled < 0 ? "-" : "", static_cast<std::int64_t>(magnitude / scale),
                       static_cast<std::int64_t>(magnitude % scale), static_cast<int>(places));
  }
  return fmt::format("{}/{}", numerator_, denominator_);
}

Rational Rational::floor() const { return static_cast<std::int64_t>(floor_divide(numerator_, denominator_)); }
Rational Rational::ceil() const { return static_cast<std::int64_t>(-floor_divide(-Wide{numerator_}, denominator_)); }

std::optional<Rational> add(Rational a, Rational b) {
  return Rational::make(Wide{a.numerator()} * b.denominator() + Wide{b.numerator()} * a.denominator(),
                        Wide{a.denominator()} * b.denominator());
}

std::optional<Rational> subtract(Rational a, Rational b) {
  return Rational::make(Wide{a.numerator()} * b.denominator() - Wide{b.numerator()} * a.denominator(),
                        Wide{a.denominator()} * b.denominator());
}

std::optional<Rational> multiply(Rational a, Rational b) {
  return Rational::make(Wide{a.numerator()} * b.numerator(), Wide{a.denominator()} * b.denominator());
}

std::optional<Rational> divide(Rational a, Rational b) {
  return Rational::make(Wide{a.numerator()} * b.denominator(), Wide{a.denominator()} * b.numerator());
}

std::optional<Rational> remainder(Rational a, Rational b) {
  const auto quotient = divide(a, b);
  if (!quotient) return std::nullopt;
  const auto product = multiply(quotient->floor(), b);
  return product ? subtract(a, *product) : std::nullopt;
}

std::optional<Rational> power(Rational base, std::int64_t exponent) {
  if (exponent < 0) {
    const auto inverse = divide(1, base);
    return inverse && exponent != std::numeric_limits<std::int64_t>::min() ? power(*inverse, -exponent) : std::nullopt;
  }
  std::optional<Rational> result = Rational(1), square = base;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) {
      if (!square) return std::nullopt;
      result = multiply(*result, *square);
      if (!result) return std::nullopt;
    }
    if (square) square = multiply(*square, *square);
  }
  return result;
}

int compare(Rational a, Rational b) {
  const Wide left = Wide{a.numerator()} * b.denominator(), right = Wide{b.numerator()} * a.denominator();
  return left < right ? -1 : left > right ? 1 : 0;
}

}  // namespace mesh
