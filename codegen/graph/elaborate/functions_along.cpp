// What runs along one dim from end to end: running sums and sorting.
#include "codegen/graph/elaborate/functions.h"
#include "codegen/graph/elaborate/operators.h"
#include "codegen/graph/elaborate/terms.h"

namespace mesh::elaboration::functions {
namespace {

/// The argument as numbers, if it has the dim.
ValueId operand(Elaboration& e, const CallSite& site, DimId dim, Span dim_span) {
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (!x) return {};
  CallSite one = site;
  one.dims = {dim};
  one.dim_spans = {dim_span};
  if (!has_dims(e, one, site.arguments[0], site.spans[0])) return {};
  return x;
}

/// The sorted values; their indices are the node's second result.
NodeId sorted(Elaboration& e, const CallSite& site, ValueId x, const SortOp& op) {
  e.build.span = site.span;
  return e.build.append(op, {x});
}

}  // namespace

Term cumsum(Elaboration& e, CallSite& site) {
  ValueId x = operand(e, site, site.dim(), site.dim_spans[0]);
  if (!x) return Term::poison();
  e.build.span = site.span;
  if (e.type(x).element == Type::boolean) x = e.build.cast(x, default_float(e));
  if (!is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  return Term::of(e.build.value(CumulativeOp{site.dim()}, {x}));
}

Term sort(Elaboration& e, CallSite& site) {
  const ValueId x = operand(e, site, site.dim(), site.dim_spans[0]);
  const auto descending = truth_option(e, site, "descending", false);
  if (!x || !descending || !is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  const NodeId node = sorted(e, site, x, {site.dim(), site.dim(), *descending});
  return Term::of(e.graph.node(node).results[0]);
}

/// The largest of each line and their indices, the largest first.
Term top_k(Elaboration& e, CallSite& site) {
  const auto dims = one_as_other(e, site);
  if (!dims) return Term::poison();
  const auto [from, to] = *dims;
  const Span brackets = site.items->front().span;
  const ValueId x = operand(e, site, from, brackets);
  if (!x || !is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  if (e.size(to) > e.size(from)) {
    e.error("E0311", brackets, "there are no {} largest of `{}`", e.size(to), e.name(from))
        .here("{} = {}, but {} = {}", e.name(from), e.size(from), e.name(to), e.size(to));
    return Term::poison();
  }
  if (from != to && contains(e.type(x).dims, to)) {
    e.error("E0312", brackets, "the value would have dim `{}` twice", e.name(to))
        .label(site.spans[0], describe(e, site.arguments[0]));
    return Term::poison();
  }
  const NodeId node = sorted(e, site, x, {from, to, true});
  site.further.push_back(Term::of(e.graph.node(node).results[1]));
  return Term::of(e.graph.node(node).results[0]);
}

}  // namespace mesh::elaboration::functions
