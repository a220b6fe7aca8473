#include "codegen/elaborate/operators.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration {
namespace {

using F = MapFunction;

std::optional<double> fold(F function, double a, double b) {
  switch (function) {
    case F::add: return a + b;
    case F::subtract: return a - b;
    case F::multiply: return a * b;
    case F::divide: return a / b;
    case F::remainder: return std::fmod(a, b);
    case F::power: return std::pow(a, b);
    case F::minimum: return std::min(a, b);
    case F::maximum: return std::max(a, b);
    default: return {};
  }
}

bool fold(ast::CompareOp op, double a, double b) {
  switch (op) {
    case ast::CompareOp::equal: return a == b;
    case ast::CompareOp::not_equal: return a != b;
    case ast::CompareOp::less_equal: return a <= b;
    case ast::CompareOp::greater_equal: return a >= b;
    case ast::CompareOp::less: return a < b;
    case ast::CompareOp::greater: return a > b;
  }
  return false;
}

F function_of(ast::CompareOp op) {
  switch (op) {
    case ast::CompareOp::equal: return F::equal;
    case ast::CompareOp::not_equal: return F::not_equal;
    case ast::CompareOp::less_equal: return F::less_equal;
    case ast::CompareOp::greater_equal: return F::greater_equal;
    case ast::CompareOp::less: return F::less;
    case ast::CompareOp::greater: return F::greater;
  }
  return F::equal;
}

F function_of(ast::BinaryOp op) {
  switch (op) {
    case ast::BinaryOp::add: return F::add;
    case ast::BinaryOp::subtract: return F::subtract;
    case ast::BinaryOp::multiply: return F::multiply;
    case ast::BinaryOp::divide: return F::divide;
    case ast::BinaryOp::remainder: return F::remainder;
    case ast::BinaryOp::power: return F::power;
  }
  return F::add;
}

/// A power of a tensor by a number that has a cheaper form.
Term power_by_number(Elaboration& e, ValueId base, double exponent) {
  if (exponent == 1) return Term::of(base);
  if (exponent == 2) return Term::of(e.build.map(F::square, {base}));
  if (exponent == 0.5) return Term::of(e.build.map(F::sqrt, {base}));
  if (exponent == -0.5) return Term::of(e.build.map(F::rsqrt, {base}));
  if (exponent == -1) return Term::of(e.build.map(F::reciprocal, {base}));
  const ValueId number = literal_as(e, exponent, e.type(base), e.build.span);
  return number ? Term::of(e.build.map(F::power, {base, number})) : Term::poison();
}

Term power(Elaboration& e, const Term& base, const Term& exponent, const Operands& at) {
  if (base.is_tensor() && exponent.is_number()) {
    if (!is_numeric(e, base.value, at.left, "`^`")) return Term::poison();
    e.build.span = at.whole;
    if (is_float(e.type(base.value).element) || exponent.number == 1 || exponent.number == 2)
      return power_by_number(e, base.value, exponent.number);
  }
  const auto pair = meet(e, base, exponent, at.left, at.right, at.at, "`^`");
  if (!pair) return Term::poison();
  const ValueType type = e.type(pair->left);
  if (!is_float(type.element)) {
    e.error("E0313", at.at, "`^` of {} values", to_string(e.graph, ValueType{type.element, type.index_of, {}}))
        .help(fmt::format("write the cast that is meant: `f32({})`", e.sources.text(at.left)));
    return Term::poison();
  }
  if (!one_sided(e, {pair->left, pair->right}, {at.left, at.right}, at.at, "`^`")) return Term::poison();
  e.build.span = at.whole;
  return Term::of(e.build.map(F::power, {pair->left, pair->right}));
}

/// The term as a bool tensor; E0314 otherwise.
ValueId boolean(Elaboration& e, const Term& term, Span span, const std::string& what) {
  if (term.is_number()) {
    e.error("E0314", span, "{} needs a bool", what).here("this is {}", describe(e, term));
    return {};
  }
  const ValueId value = tensor_of(e, term, span);
  if (value && e.type(value).element != Type::boolean) {
    e.error("E0314", span, "{} needs a bool", what)
        .here(to_string(e.graph, e.type(value)))
        .help(fmt::format("compare it: `{} != 0`", e.sources.text(span)));
    return {};
  }
  return value;
}

}  // namespace

bool is_numeric(Elaboration& e, ValueId value, Span span, const std::string& what, const Term* beside) {
  const ValueType type = e.type(value);
  if (type.element != Type::boolean && !type.index_of) return true;
  const std::string element = to_string(e.graph, ValueType{type.element, type.index_of, {}});
  const ValueType other = beside && beside->is_tensor() ? e.type(beside->value) : type;
  const bool meets_number = other.element != Type::boolean && !other.index_of;
  const std::string cast = meets_number ? meshrt::name_of(other.element) : type.index_of ? "i32" : "f32";
  e.error("E0313", span, "{} of {} values", what, element)
      .here(to_string(e.graph, type))
      .help(fmt::format("write the cast that is meant: `{}({})`", cast, e.sources.text(span)));
  return false;
}

Term arithmetic(Elaboration& e, F function, const Term& left, const Term& right, const Operands& at) {
  if (left.poisoned() || right.poisoned()) return Term::poison();
  if ((function == F::divide || function == F::remainder) && right.is_number() && right.number == 0) {
    e.error("E0313", at.right, "{}", function == F::divide ? "division by zero" : "remainder of a division by zero");
    return Term::poison();
  }
  if (left.is_number() && right.is_number()) {
    const double number = *fold(function, left.number, right.number);
    if (std::isfinite(number)) return Term::of(number);
    e.error("E0118", at.whole, "`{}` is {}", e.sources.text(at.whole),
            std::isnan(number) ? "no real number" : "out of range")
        .here("{} of {} and {}", at.what, left.number, right.number);
    return Term::poison();
  }
  if (function == F::power) return power(e, left, right, at);
  for (const auto& [term, beside, span] : {std::tuple(&left, &right, at.left), std::tuple(&right, &left, at.right)}) {
    if (term->is_truth()) {
      e.error("E0313", span, "{} of a truth value", at.what).here(describe(e, *term));
      return Term::poison();
    }
    if (term->is_tensor() && !is_numeric(e, term->value, span, at.what, beside)) return Term::poison();
  }
  const auto pair = meet(e, left, right, at.left, at.right, at.at, at.what);
  if (!pair) return Term::poison();
  if (function == F::divide && !is_float(e.type(pair->left).element)) {
    const std::string element = meshrt::name_of(e.type(pair->left).element);
    auto report = e.error("E0313", at.at, "`/` of {} values", element);
    report.label(at.left, describe(e, left)).label(at.right, describe(e, right));
    report.help(
        fmt::format("write the cast that is meant: `f32({})`", e.sources.text(left.is_tensor() ? at.left : at.right)));
    return Term::poison();
  }
  if (!one_sided(e, {pair->left, pair->right}, {at.left, at.right}, at.at, at.what)) return Term::poison();
  e.build.span = at.whole;
  const ValueId value = e.build.map(function, {pair->left, pair->right});
  if (right.is_number()) return with_numbers(left, value, [&](double x) { return *fold(function, x, right.number); });
  if (left.is_number()) return with_numbers(right, value, [&](double x) { return *fold(function, left.number, x); });
  return Term::of(value);
}

Term unary_expression(Elaboration& e, Frame& frame, const ast::Unary& unary, Span span) {
  Term operand = expression(e, frame, *unary.operand);
  if (operand.poisoned()) return operand;
  if (unary.op == ast::UnaryOp::logical_not) {
    if (operand.is_truth()) return Term::of_truth(!operand.truth);
    const ValueId value = boolean(e, operand, unary.operand->span, "`not`");
    e.build.span = span;
    return value ? Term::of(e.build.map(F::logical_not, {value})) : Term::poison();
  }
  if (operand.is_number()) return Term::of(-operand.number);
  const ValueId value = tensor_of(e, operand, unary.operand->span);
  if (!value || !is_numeric(e, value, unary.operand->span, "`-`")) return Term::poison();
  e.build.span = span;
  return with_numbers(operand, e.build.map(F::negate, {value}), [](double x) { return -x; });
}

Term binary_expression(Elaboration& e, Frame& frame, const ast::Binary& binary, Span span) {
  const Term left = expression(e, frame, *binary.left), right = expression(e, frame, *binary.right);
  const std::string what = fmt::format("`{}`", ast::spelling(binary.op));
  return arithmetic(e, function_of(binary.op), left, right,
                    {binary.left->span, binary.right->span, binary.op_span, span, what});
}

Term compare_expression(Elaboration& e, Frame& frame, const ast::Compare& compare, Span span) {
  const Term left = expression(e, frame, *compare.left), right = expression(e, frame, *compare.right);
  if (left.poisoned() || right.poisoned()) return Term::poison();
  if (left.is_number() && right.is_number()) return Term::of_truth(fold(compare.op, left.number, right.number));
  if (left.is_truth() && right.is_truth()) return Term::of_truth(fold(compare.op, left.truth, right.truth));
  const auto pair = meet(e, left, right, compare.left->span, compare.right->span, compare.op_span,
                         fmt::format("`{}`", ast::spelling(compare.op)));
  if (!pair) return Term::poison();
  e.build.span = span;
  return Term::of(e.build.map(function_of(compare.op), {pair->left, pair->right}));
}

Term logical_expression(Elaboration& e, Frame& frame, const ast::Logical& logical, Span span) {
  Term left = expression(e, frame, *logical.left), right = expression(e, frame, *logical.right);
  if (left.poisoned() || right.poisoned()) return Term::poison();
  const bool conjunction = logical.op == ast::LogicalOp::logical_and;
  // A truth known now either decides or drops out.
  if (left.is_truth() && (left.truth != conjunction || right.is_truth()))
    return left.truth != conjunction ? std::move(left) : std::move(right);
  if (right.is_truth() && right.truth != conjunction) return right;
  const std::string what = fmt::format("`{}`", ast::spelling(logical.op));
  const ValueId l = boolean(e, left, logical.left->span, what), r = boolean(e, right, logical.right->span, what);
  if (!l || !r) return Term::poison();
  if (left.is_truth()) return right;
  if (right.is_truth()) return left;
  e.build.span = span;
  return Term::of(e.build.map(conjunction ? F::logical_and : F::logical_or, {l, r}));
}

}  // namespace mesh::elaboration
