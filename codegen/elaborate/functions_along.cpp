// What runs along one dim from end to end: running sums, and the same elements in another order.
#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration::functions {

Term cumsum(Elaboration& e, CallSite& site) {
  ValueId x = tensor_with(e, site, site.dim(), site.dim_spans[0]);
  if (!x) return Term::poison();
  e.build.span = site.span;
  if (e.type(x).element == Type::boolean) x = e.build.cast(x, default_float(e));
  if (!is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  return Term::of(e.build.value(CumulativeOp{site.dim()}, {x}));
}

/// The last first: read at indices that count down.
Term flip(Elaboration& e, CallSite& site) {
  const DimId dim = site.dim();
  const ValueId x = tensor_with(e, site, dim, site.dim_spans[0]);
  if (!x) return Term::poison();
  e.build.span = site.span;
  const ValueType type = e.type(x);
  const DimId back = twin(e, dim, "_back");
  const ValueId last = e.build.literal(static_cast<double>(e.size(dim) - 1), Type::i32);
  const ValueId index = e.build.cast(e.build.subtract(last, e.build.position(back)), Type::i32, dim);
  const ValueId flipped = e.build.rename(e.build.value(TakeOp{dim}, {x, index}), back, dim);
  return Term::of(e.build.in_order(flipped, type.dims));
}

/// Each element `by` further along the dim, those at the end come first.
Term roll(Elaboration& e, CallSite& site) {
  const ValueId x = tensor_with(e, site, site.dim(), site.dim_spans[0]);
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
