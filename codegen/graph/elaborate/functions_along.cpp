// What runs along one dim from end to end: running sums, sorting, and the same elements in another order.
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

/// A dim for the places of a flipped `dim`: one for all that flip it.
DimId counted_back(Elaboration& e, DimId dim) {
  const std::string name = e.name(dim) + "_back";
  for (uint32_t i = 0; i < e.graph.dims.size(); ++i)
    if (e.graph.dims[i].name == name && e.graph.dims[i].span == e.graph.dim(dim).span) return DimId{i};
  return e.build.dim(name, e.size(dim), e.graph.dim(dim).span);
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

/// The last first: read at indices that count down.
Term flip(Elaboration& e, CallSite& site) {
  const DimId dim = site.dim();
  const ValueId x = operand(e, site, dim, site.dim_spans[0]);
  if (!x) return Term::poison();
  e.build.span = site.span;
  const ValueType type = e.type(x);
  const DimId back = counted_back(e, dim);
  const ValueId last = e.build.literal(static_cast<double>(e.size(dim) - 1), Type::i32);
  const ValueId index = e.build.cast(e.build.subtract(last, e.build.position(back)), Type::i32, dim);
  const ValueId flipped = e.build.rename(e.build.value(TakeOp{dim}, {x, index}), back, dim);
  return Term::of(e.build.in_order(flipped, type.dims));
}

/// Each element `by` further along the dim, those at the end come first.
Term roll(Elaboration& e, CallSite& site) {
  const ValueId x = operand(e, site, site.dim(), site.dim_spans[0]);
  if (site.options.count("by") == 0) {
    e.error("E0310", site.span, "`roll` needs `by:`")
        .help(fmt::format("`roll[{}]({}, by: 1)` moves each element one further", e.name(site.dim()),
                          e.sources.text(site.spans[0])));
    return Term::poison();
  }
  const auto by = whole_option(e, site, "by", 0);
  if (!x || !by) return Term::poison();
  const int64_t distance = -*by % e.size(site.dim());
  e.build.span = site.span;
  if (distance == 0) return Term::of(x);
  return Term::of(e.build.value(ShiftOp{site.dim(), distance, Edge{Edge::Kind::wrap}}, {x}));
}

}  // namespace mesh::elaboration::functions
