// Elementwise functions of specs: f(x), min(a, b), where(c, a, b).
#include <algorithm>
#include <cmath>

#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"
#include "meshrt/math.h"

namespace mesh::elaboration::functions {
namespace {

using F = MapFunction;

double standard_normal(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }

struct Row {
  std::string_view name;
  F function;
  bool integers;  // makes sense of integers too
  double (*fold)(double);
};

const Row& row_named(std::string_view name) {
  static const Row rows[] = {
      {"abs", F::abs, true, [](double x) { return std::abs(x); }},
      {"cos", F::cos, false, [](double x) { return std::cos(x); }},
      {"erf", F::erf, false, [](double x) { return std::erf(x); }},
      {"exp", F::exp, false, [](double x) { return std::exp(x); }},
      {"expm1", F::expm1, false, [](double x) { return std::expm1(x); }},
      {"floor", F::floor, false, [](double x) { return std::floor(x); }},
      {"gelu", F::gelu, false, [](double x) { return x * standard_normal(x); }},
      {"gelu_tanh", F::gelu_tanh, false,
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {"log", F::log, false, [](double x) { return std::log(x); }},
      {"log1p", F::log1p, false, [](double x) { return std::log1p(x); }},
      {"relu", F::relu, true, [](double x) { return x > 0 ? x : 0; }},
      {"round", F::round, false, [](double x) { return std::nearbyint(x); }},
      {"rsqrt", F::rsqrt, false, [](double x) { return 1 / std::sqrt(x); }},
      {"sigmoid", F::sigmoid, false, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"sign", F::sign, true, [](double x) { return meshrt::sign(x); }},
      {"silu", F::silu, false, [](double x) { return x / (1 + std::exp(-x)); }},
      {"sin", F::sin, false, [](double x) { return std::sin(x); }},
      {"softplus", F::softplus, false, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
      {"sqrt", F::sqrt, false, [](double x) { return std::sqrt(x); }},
      {"tanh", F::tanh, false, [](double x) { return std::tanh(x); }},
  };
  for (const Row& row : rows)
    if (row.name == name) return row;
  internal_error("no elementwise function is called " + std::string(name));
}

Operands operands(const CallSite& site) { return {site.spans[0], site.spans[1], site.callee, site.span, site.name}; }

/// What `where` gives when its condition is known: one of the two, of the type that both together have.
Term chosen(Elaboration& e, CallSite& site, size_t which) {
  const Term &yes = site.arguments[1], &no = site.arguments[2];
  if (yes.is_number() && no.is_number()) return site.arguments[which];
  if (yes.is_truth() && no.is_truth()) return site.arguments[which];
  const auto pair = meet(e, yes, no, site.spans[1], site.spans[2], site.callee, site.name);
  if (!pair || !one_sided(e, {pair->left, pair->right}, {site.spans[1], site.spans[2]}, site.callee, site.name))
    return Term::poison();
  const ValueId one = which == 1 ? pair->left : pair->right, other = which == 1 ? pair->right : pair->left;
  e.build.span = site.span;
  return Term::of(e.build.broadcast(one, missing_from(e.type(one).dims, e.type(other).dims)));
}

}  // namespace

Term elementwise(Elaboration& e, CallSite& site) {
  const Row& row = row_named(e.sources.text(site.callee));
  if (site.arguments[0].is_number()) return Term::of(row.fold(site.arguments[0].number));
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (!x || !is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  if (!is_float(e.type(x).element) && !row.integers) {
    e.error("E0313", site.span, "{} of {} values", site.name, meshrt::name_of(e.type(x).element))
        .label(site.spans[0], describe(e, site.arguments[0]))
        .help(fmt::format("write the cast that is meant: `f32({})`", e.sources.text(site.spans[0])));
    return Term::poison();
  }
  e.build.span = site.span;
  return Term::of(e.build.map(row.function, {x}));
}

Term smaller(Elaboration& e, CallSite& site) {
  return arithmetic(e, F::minimum, site.arguments[0], site.arguments[1], operands(site));
}

Term larger(Elaboration& e, CallSite& site) {
  return arithmetic(e, F::maximum, site.arguments[0], site.arguments[1], operands(site));
}

Term where(Elaboration& e, CallSite& site) {
  const Term& condition = site.arguments[0];
  if (condition.is_truth()) return chosen(e, site, condition.truth ? 1 : 2);
  const ValueId chooses = tensor_of(e, condition, site.spans[0]);
  if (!chooses) return Term::poison();
  if (e.type(chooses).element != Type::boolean) {
    e.error("E0314", site.spans[0], "the condition of `where` must be a bool")
        .here(describe(e, condition))
        .help(fmt::format("compare it: `{} != 0`", e.sources.text(site.spans[0])));
    return Term::poison();
  }
  const auto pair = meet(e, site.arguments[1], site.arguments[2], site.spans[1], site.spans[2], site.callee, site.name);
  if (!pair || !one_sided(e, {chooses, pair->left, pair->right}, site.spans, site.callee, site.name))
    return Term::poison();
  e.build.span = site.span;
  Term result = Term::of(e.build.map(F::where, {chooses, pair->left, pair->right}));
  const Term &yes = site.arguments[1], &no = site.arguments[2];
  if (yes.is_untyped() && no.is_untyped())
    result.choice =
        std::make_shared<Choice>(Choice{chooses, Untyped{yes.number, yes.choice}, Untyped{no.number, no.choice}});
  return result;
}

Term stop_gradient(Elaboration& e, CallSite& site) {
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  e.build.span = site.span;
  return x ? Term::of(e.build.map(F::copy, {x})) : Term::poison();
}

}  // namespace mesh::elaboration::functions
