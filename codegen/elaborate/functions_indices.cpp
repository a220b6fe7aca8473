// Reading by index, writing by index, and which index it is.
#include <algorithm>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration {

ValueId index_argument(Elaboration& e, const CallSite& site, size_t i, DimId over) {
  const ValueId ids = tensor_of(e, site.arguments[i], site.spans[i]);
  if (!ids || e.type(ids).index_of == over) return ids;
  auto report =
      e.error("E0306", site.spans[i], "{} over `{}` reads by index({})", site.name, e.name(over), e.name(over));
  report.here(describe(e, site.arguments[i]));
  if (const DimId of = e.type(ids).index_of)
    report.help(fmt::format("they are indices of `{0}`: `[{0}]` in place of `[{1}]`", e.name(of), e.name(over)));
  else
    report.help(
        fmt::format("write the cast that is meant: `index({})({})`", e.name(over), e.sources.text(site.spans[i])));
  return {};
}

namespace functions {
namespace {

using F = MapFunction;

/// What the looked up dim is called in the indices where these have it too.
constexpr const char* taken = "_taken";

/// The dims that become another: `token as expert`, `token * pick as expert`; a dim alone stays what it is. E0310.
struct Scattered {
  std::vector<DimId> from;
  DimId to;
  Span span;
};
std::optional<Scattered> scattered(Elaboration& e, const CallSite& site) {
  using Kind = ast::ItemKind;
  const ast::Item& item = site.items->front();
  const bool fits = item.kind() == Kind::rename || item.kind() == Kind::merge ||
                    (item.kind() == Kind::dim && item.pick.kind == ast::Pick::Kind::one);
  if (site.items->size() != 1 || !fits) {
    e.error("E0310", cover(item.span, site.items->back().span), "{} takes dims as another", site.name)
        .help(fmt::format("as in `{0}[edge as node](x, index)`, or `{0}[token * pick as row](x, index)`",
                          site.name.substr(1, site.name.size() - 2)));
    return {};
  }
  Scattered result{{}, {}, item.span};
  for (const ast::Name& name : item.pick.names) {
    const DimId dim = dim_named(e, *site.frame->dims, name);
    if (!dim) return {};
    if (contains(result.from, dim)) {
      e.error("E0312", name.span, "dim `{}` is listed twice", name.text);
      return {};
    }
    result.from.push_back(dim);
  }
  result.to = item.as ? dim_named(e, *site.frame->dims, item.as->name()) : result.from.front();
  if (!result.to) return {};
  return result;
}

/// The rows to be scattered, with all dims of the indices: a number and what lacks some of them is repeated. E0303.
ValueId rows_of(Elaboration& e, const CallSite& site, ValueId ids) {
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (!x) return {};
  const std::vector<DimId> dims = e.type(x).dims, wanted = e.type(ids).dims;
  if (contains_all(dims, wanted)) return x;
  if (!one_sided(e, {x, ids}, {site.spans[0], site.spans[1]}, site.callee, site.name)) return {};
  e.build.span = site.span;
  return e.build.in_order(e.build.broadcast(x, missing_from(dims, wanted)), wanted);
}

Term scatter(Elaboration& e, CallSite& site, Reduce reduce) {
  const auto dims = scattered(e, site);
  if (!dims) return Term::poison();
  const ValueId given = index_argument(e, site, 1, dims->to);
  const ValueId x = given ? rows_of(e, site, given) : ValueId{};
  if (!x || !is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  const auto lacking = missing_from(e.type(given).dims, dims->from);
  if (!lacking.empty()) {
    e.error("E0304", dims->span, "{} over {}: its indices lack {}", site.name, quoted(e, dims->from),
            quoted(e, lacking))
        .label(site.spans[1], describe(e, site.arguments[1]))
        .help("each element along the dims in brackets goes where its index says; the others stay what they are");
    return Term::poison();
  }
  if (contains(e.type(x).dims, dims->to) && !contains(dims->from, dims->to)) {
    e.error("E0312", dims->span, "the value would have dim `{}` twice", e.name(dims->to))
        .label(site.spans[0], describe(e, site.arguments[0]));
    return Term::poison();
  }
  e.build.span = site.span;
  std::vector<DimId> result;
  for (const DimId dim : e.type(x).dims) {
    if (!contains(dims->from, dim)) result.push_back(dim);
    else if (!contains(result, dims->to)) result.push_back(dims->to);
  }
  ValueId rows = x, ids = given;
  if (contains(dims->from, dims->to)) {
    const DimId aside = twin(e, dims->to, taken);
    rows = e.build.rename(rows, dims->to, aside);
    ids = e.build.rename(ids, dims->to, aside);
  }
  return Term::of(e.build.value(ScatterOp{dims->to, result, reduce}, {ids, rows}));
}

}  // namespace

/// Dims that both have pair up; where the indices have the looked up dim, it is one of theirs that the result keeps.
Term take(Elaboration& e, CallSite& site) {
  const DimId dim = site.dim();
  const ValueId table = tensor_of(e, site.arguments[0], site.spans[0]);
  ValueId ids = index_argument(e, site, 1, dim);
  if (!table || !ids || !has_dims(e, site, site.arguments[0], site.spans[0])) return Term::poison();
  e.build.span = site.span;
  if (!contains(e.type(ids).dims, dim)) return Term::of(e.build.value(TakeOp{dim}, {table, ids}));
  const DimId aside = twin(e, dim, taken);
  ids = e.build.rename(ids, dim, aside);
  return Term::of(e.build.rename(e.build.value(TakeOp{dim}, {table, ids}), aside, dim));
}

Term scatter_add(Elaboration& e, CallSite& site) { return scatter(e, site, Reduce::sum); }

Term scatter_max(Elaboration& e, CallSite& site) { return scatter(e, site, Reduce::max); }

Term one_hot(Elaboration& e, CallSite& site) {
  const ValueId ids = index_argument(e, site, 0, site.dim());
  if (!ids) return Term::poison();
  if (contains(e.type(ids).dims, site.dim())) {
    e.error("E0312", site.spans[0], "the indices of `one_hot` have dim `{}` already", e.name(site.dim()))
        .here(describe(e, site.arguments[0]));
    return Term::poison();
  }
  e.build.span = site.span;
  return Term::of(e.build.cast(e.build.map(F::equal, {ids, e.build.position(site.dim())}), default_float(e)));
}

}  // namespace functions

}  // namespace mesh::elaboration
