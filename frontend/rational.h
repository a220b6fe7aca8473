// Exact fractions of 64-bit integers: what size expressions are computed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mesh {

// In lowest terms, the denominator positive. Operations give nothing when the result does not fit.
class Rational {
 public:
  Rational() = default;
  Rational(std::int64_t whole) : numerator_(whole) {}  // NOLINT: a whole number is a rational

  // Nothing when the denominator is 0 or a part does not fit after reducing.
  static std::optional<Rational> make(__int128 numerator, __int128 denominator);
  // A literal of the language, exactly: `50_257`, `1.25`, `3e-4`; with a sign before it, too.
  static std::optional<Rational> parse(std::string_view literal);

  std::int64_t numerator() const { return numerator_; }
  std::int64_t denominator() const { return denominator_; }
  bool whole() const { return denominator_ == 1; }
  double to_double() const { return static_cast<double>(numerator_) / static_cast<double>(denominator_); }

  // `12`, `62.5`, `1/3`: a decimal when it is short, else a fraction.
  std::string text() const;

  Rational floor() const;
  Rational ceil() const;

 private:
  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};

std::optional<Rational> add(Rational a, Rational b);
std::optional<Rational> subtract(Rational a, Rational b);
std::optional<Rational> multiply(Rational a, Rational b);
std::optional<Rational> divide(Rational a, Rational b);  // nothing, too, when b is 0
// a - b * floor(a / b): the sign of b, as in mathematics. b must not be 0.
std::optional<Rational> remainder(Rational a, Rational b);
std::optional<Rational> power(Rational base, std::int64_t exponent);

int compare(Rational a, Rational b);  // -1, 0, 1
inline bool operator==(Rational a, Rational b) { return compare(a, b) == 0; }
inline bool operator!=(Rational a, Rational b) { return compare(a, b) != 0; }

}  // namespace mesh
