// Functions that are a formula of others, written so that no value and no gradient is lost at large numbers.
#include <cmath>

#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration::functions {
namespace {

using F = MapFunction;

/// A float tensor; E0313 otherwise.
ValueId floats(Elaboration& e, const CallSite& site, size_t i) {
  const ValueId x = tensor_of(e, site.arguments[i], site.spans[i]);
  if (!x || is_float(e.type(x).element)) return x;
  e.error("E0313", site.spans[i], "{} of {} values", site.name, meshrt::name_of(e.type(x).element))
      .here(describe(e, site.arguments[i]))
      .help(fmt::format("write the cast that is meant: `f32({})`", e.sources.text(site.spans[i])));
  return {};
}

ValueId zero(Elaboration& e, ValueId like) { return e.build.literal(0, e.type(like).element); }

ValueId is_positive(Elaboration& e, ValueId x) { return e.build.map(F::greater, {x, zero(e, x)}); }

}  // namespace

/// x where it is positive, alpha (e^x - 1) elsewhere. Of a positive x no exponential is taken: it could be infinite.
Term elu(Elaboration& e, CallSite& site) {
  const auto alpha = number_option(e, site, "alpha", 1);
  const ValueId x = floats(e, site, 0);
  if (!x || !alpha) return Term::poison();
  e.build.span = site.span;
  const ValueId positive = is_positive(e, x), below = e.build.map(F::where, {positive, zero(e, x), x});
  ValueId curve = e.build.map(F::expm1, {below});
  if (*alpha != 1) curve = e.build.multiply(curve, *alpha);
  return Term::of(e.build.map(F::where, {positive, x, curve}));
}

Term leaky_relu(Elaboration& e, CallSite& site) {
  const auto slope = number_option(e, site, "slope", 0.01);
  const ValueId x = floats(e, site, 0);
  if (!x || !slope) return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.map(F::where, {is_positive(e, x), x, e.build.multiply(x, *slope)}));
}

/// -y log(p) - (1 - y) log(1 - p) with p = sigmoid(x), as y softplus(-x) + (1 - y) softplus(x): nothing cancels, in the
/// gradient neither.
Term sigmoid_cross_entropy(Elaboration& e, CallSite& site) {
  const ValueId x = floats(e, site, 0);
  if (!x) return Term::poison();
  Term label = site.arguments[1];
  if (label.is_truth() || (label.is_tensor() && e.type(label.value).element == Type::boolean))
    label = cast_to(e, label, e.type(x).element, {}, site.spans[1]);
  const auto pair = meet(e, Term::of(x), label, site.spans[0], site.spans[1], site.callee, site.name);
  if (!pair || !one_sided(e, {pair->left, pair->right}, site.spans, site.callee, site.name)) return Term::poison();
  e.build.span = site.span;
  const ValueId y = pair->right, one = e.build.literal(1, e.type(y).element);
  const ValueId if_true = e.build.multiply(e.build.map(F::softplus, {e.build.map(F::negate, {x})}), y);
  const ValueId if_false = e.build.multiply(e.build.map(F::softplus, {x}), e.build.subtract(one, y));
  return Term::of(e.build.add(if_true, if_false));
}

}  // namespace mesh::elaboration::functions
