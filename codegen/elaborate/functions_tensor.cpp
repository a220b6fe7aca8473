// Products and widening.
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration::functions {
namespace {

/// E0309 unless the operand holds numbers to multiply.
bool multipliable(Elaboration& e, const CallSite& site, size_t i) {
  const Term& term = site.arguments[i];
  if (term.poisoned()) return false;
  if (term.is_tensor()) return is_numeric(e, term.value, site.spans[i], site.name);
  if (term.is_masked()) return bool(tensor_of(e, term, site.spans[i]));
  e.error("E0310", site.spans[i], "{} takes tensors", site.name).here("this is {}", describe(e, term));
  return false;
}

}  // namespace

Term dot(Elaboration& e, CallSite& site) {
  const bool left_good = multipliable(e, site, 0), right_good = multipliable(e, site, 1);
  if (!left_good || !right_good) return Term::poison();
  const auto pair = meet(e, site.arguments[0], site.arguments[1], site.spans[0], site.spans[1], site.callee, site.name);
  if (!pair) return Term::poison();
  const std::vector<DimId> left = e.type(pair->left).dims, right = e.type(pair->right).dims;
  for (size_t i = 0; i < site.dims.size(); ++i) {
    const bool in_left = contains(left, site.dims[i]), in_right = contains(right, site.dims[i]);
    if (in_left && in_right) continue;
    const size_t lacking = in_left ? 1 : 0;
    const std::string dim = e.name(site.dims[i]);
    const std::string who = in_left || in_right
                                ? fmt::format("`{}` does not have it", e.sources.text(site.spans[lacking]))
                                : std::string("neither operand has it");
    auto report = e.error("E0301", site.dim_spans[i], "cannot contract over `{}`: {}", dim, who);
    report.label(site.spans[0], describe(e, site.arguments[0])).label(site.spans[1], describe(e, site.arguments[1]));
    std::vector<DimId> shared;
    for (DimId d : left)
      if (contains(right, d)) shared.push_back(d);
    if (shared.empty()) report.note("the operands share no dim, so there is nothing to contract");
    else report.note(fmt::format("the operands share {}", quoted(e, shared)));
    return Term::poison();
  }
  e.build.span = site.span;
  return Term::of(e.build.cast(e.build.dot(pair->left, pair->right, site.dims), e.type(pair->left).element));
}

Term outer(Elaboration& e, CallSite& site) {
  const bool left_good = multipliable(e, site, 0), right_good = multipliable(e, site, 1);
  if (!left_good || !right_good) return Term::poison();
  const auto pair = meet(e, site.arguments[0], site.arguments[1], site.spans[0], site.spans[1], site.callee, site.name);
  if (!pair) return Term::poison();
  e.build.span = site.span;
  const auto added = missing_from(e.type(pair->left).dims, e.type(pair->right).dims);
  return Term::of(e.build.multiply(e.build.broadcast(pair->left, added), pair->right));
}

Term broadcast(Elaboration& e, CallSite& site) {
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (!x) return Term::poison();
  for (size_t i = 0; i < site.dims.size(); ++i) {
    if (!contains(e.type(x).dims, site.dims[i])) continue;
    e.error("E0312", site.dim_spans[i], "the operand of `broadcast` has dim `{}` already", e.name(site.dims[i]))
        .label(site.spans[0], describe(e, site.arguments[0]));
    return Term::poison();
  }
  e.build.span = site.span;
  return Term::of(e.build.broadcast(x, site.dims));
}

}  // namespace mesh::elaboration::functions
