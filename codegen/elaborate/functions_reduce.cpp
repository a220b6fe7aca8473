// Reductions over named dims. A mean is written as a sum over a count, so that both can be carried over micro-batches
// and over the batches of an evaluation.
#include <cmath>

#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration::functions {
namespace {

using F = MapFunction;

/// What is reduced: x, and which of its entries count (unset: all).
struct Operand {
  ValueId x, keep;
};

/// The argument with the mask that it carries, or that `where:` gives. Bools count as 1 and 0.
std::optional<Operand> operand(Elaboration& e, const CallSite& site) {
  const Term& term = site.arguments[0];
  Operand result;
  if (term.is_masked()) {
    result = {term.value, term.keep};
  } else {
    result.x = tensor_of(e, term, site.spans[0]);
    if (!result.x) return {};
  }
  if (!has_dims(e, site, term, site.spans[0])) return {};
  if (e.type(result.x).element == Type::boolean) {
    e.build.span = site.spans[0];
    result.x = e.build.cast(result.x, default_float(e));
  }
  if (!is_numeric(e, result.x, site.spans[0], site.name)) return {};
  const auto option = site.options.find("where");
  if (option == site.options.end()) return result;
  const auto& [keep, span] = option->second;
  if (result.keep) {
    e.error("E0310", span, "{} of a masked value has its mask already", site.name);
    return {};
  }
  result.keep = tensor_of(e, keep, span);
  if (!result.keep) return {};
  if (e.type(result.keep).element != Type::boolean) {
    e.error("E0314", span, "`where:` needs a bool")
        .here(describe(e, keep))
        .help(fmt::format("compare it: `{} != 0`", e.sources.text(span)));
    return {};
  }
  const auto extra = missing_from(e.type(result.x).dims, e.type(result.keep).dims);
  if (!extra.empty()) {
    e.error("E0303", span, "`where:` has {}, which the operand does not", quoted(e, extra))
        .here(describe(e, keep))
        .label(site.spans[0], describe(e, term));
    return {};
  }
  return result;
}

ValueId number(Elaboration& e, ValueId like, double value) { return e.build.literal(value, e.type(like).element); }

/// x, and `other` where it does not count.
ValueId kept(Elaboration& e, const Operand& operand, double other) {
  if (!operand.keep) return operand.x;
  return e.build.map(F::where, {operand.keep, operand.x, number(e, operand.x, other)});
}

Term extreme(Elaboration& e, CallSite& site, Reduce reduce, double absent) {
  const auto x = operand(e, site);
  if (!x) return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.reduce(reduce, kept(e, *x, absent), site.dims));
}

}  // namespace

Term sum(Elaboration& e, CallSite& site) {
  const auto x = operand(e, site);
  if (!x) return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.reduce(Reduce::sum, kept(e, *x, 0), site.dims));
}

Term mean(Elaboration& e, CallSite& site) {
  auto x = operand(e, site);
  if (!x) return Term::poison();
  if (!is_float(e.type(x->x).element)) {
    e.error("E0313", site.span, "`mean` of {} values", meshrt::name_of(e.type(x->x).element))
        .label(site.spans[0], describe(e, site.arguments[0]))
        .help(fmt::format("write the cast that is meant: `f32({})`", e.sources.text(site.spans[0])));
    return Term::poison();
  }
  e.build.span = site.span;
  const Type narrow = e.type(x->x).element;  // what is rounded to it is the mean alone, not the sum or the count
  x->x = e.build.computed(x->x);
  const ValueId total = e.build.reduce(Reduce::sum, kept(e, *x, 0), site.dims);
  const Type element = e.type(x->x).element;
  if (!x->keep) {
    const ValueId ones = e.build.broadcast(e.build.literal(1, element), site.dims);
    const ValueId count = e.build.reduce(Reduce::sum, ones, site.dims);
    return Term::of(e.build.cast(e.build.divide(total, count), narrow));
  }
  const auto absent = missing_from(e.type(x->keep).dims, site.dims);
  const ValueId counts = e.build.cast(e.build.broadcast(x->keep, absent), element);
  const ValueId count = e.build.reduce(Reduce::sum, counts, site.dims);
  // Where nothing counts the sum is 0, and so is the mean.
  const ValueId mean = e.build.divide(total, e.build.map(F::maximum, {count, number(e, count, 1)}));
  return Term::of(e.build.cast(mean, narrow));
}

Term max(Elaboration& e, CallSite& site) { return extreme(e, site, Reduce::max, -INFINITY); }
Term min(Elaboration& e, CallSite& site) { return extreme(e, site, Reduce::min, INFINITY); }

Term argmax(Elaboration& e, CallSite& site) {
  const auto x = operand(e, site);
  if (!x) return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.value(ArgReduceOp{true, site.dim()}, {kept(e, *x, -INFINITY)}));
}

}  // namespace mesh::elaboration::functions
