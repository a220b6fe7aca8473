// Values put together along a dim, and padding.
#include <algorithm>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration::functions {
namespace {

/// The arguments as tensors of one element type. Empty when an error was reported.
std::vector<ValueId> alike(Elaboration& e, const CallSite& site) {
  std::vector<ValueId> values;
  for (size_t i = 0; i < site.arguments.size(); ++i) {
    const Term& term = site.arguments[i];
    if (term.poisoned()) return {};
    if (!term.is_tensor()) {
      e.error("E0310", site.spans[i], "{} takes tensors", site.name).here("this is {}", describe(e, term));
      return {};
    }
    // Tensors as they are: a choice of numbers has one element type here.
    const Term first = Term::of(site.arguments[0].value), other = Term::of(term.value);
    if (i > 0 && !meet(e, first, other, site.spans[0], site.spans[i], site.callee, site.name)) return {};
    values.push_back(term.value);
  }
  const auto is_f32 = [&](ValueId value) { return e.type(value).element == Type::f32; };
  if (std::ranges::any_of(values, is_f32))  // then others that are narrow become so
    for (ValueId& value : values) value = e.build.computed(value);
  return values;
}

/// Widens each value to the dims of all, but for its own part: one of them has all, and gives their order. False when
/// an error was reported.
bool widen(Elaboration& e, const CallSite& site, std::vector<ValueId>& values, const std::vector<DimId>& parts) {
  std::vector<DimId> all;
  std::vector<std::vector<DimId>> others;
  for (size_t i = 0; i < values.size(); ++i) {
    others.push_back(missing_from({parts[i]}, e.type(values[i]).dims));
    for (DimId dim : missing_from(all, others.back())) all.push_back(dim);
  }
  const auto leads = std::find_if(others.begin(), others.end(),
                                  [&](const std::vector<DimId>& dims) { return dims.size() == all.size(); });
  if (leads == others.end()) {
    auto report = e.error("E0303", site.callee, "{} would broadcast its operands both ways", site.name);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto lacks = missing_from(others[i], all);
      report.label(site.spans[i],
                   lacks.empty() ? describe(e, site.arguments[i])
                                 : fmt::format("{}   (lacks {})", describe(e, site.arguments[i]), quoted(e, lacks)));
    }
    report.note("one operand's other dims must contain those of all others");
    return false;
  }
  e.build.span = site.span;
  const auto lead = static_cast<size_t>(leads - others.begin());
  std::vector<DimId> order = e.type(values[lead]).dims;
  std::replace(order.begin(), order.end(), parts[lead], parts[0]);
  for (size_t i = 0; i < values.size(); ++i) values[i] = e.build.broadcast(values[i], missing_from(others[i], all));
  if (lead != 0) values[0] = e.build.in_order(values[0], order);  // the first operand's order is the result's
  return true;
}

/// Whether the result has every dim once. E0312.
bool is_new(Elaboration& e, const CallSite& site, const std::vector<ValueId>& values, DimId to,
            const std::vector<DimId>& parts, Span span) {
  for (size_t i = 0; i < values.size(); ++i) {
    for (DimId part : parts) {
      if (!part || part == parts[i] || !contains(e.type(values[i]).dims, part)) continue;
      e.error("E0312", site.spans[i], "dim `{}` of another operand is put together, and this one has it too",
              e.name(part))
          .here(describe(e, site.arguments[i]))
          .help(fmt::format("rename it in one of them: `x[{} as other]`", e.name(part)));
      return false;
    }
    if (parts[i] == to || !contains(e.type(values[i]).dims, to)) continue;
    e.error("E0312", span, "the value would have dim `{}` twice", e.name(to))
        .label(site.spans[i], describe(e, site.arguments[i]));
    return false;
  }
  return true;
}

/// `cls + patch as token`: the dims on the left.
std::optional<std::vector<DimId>> concat_parts(Elaboration& e, const CallSite& site) {
  const ast::Item& item = site.items->front();
  const bool alone = site.items->size() == 1 && item.kind() == ast::ItemKind::concat;
  if (!alone || !item.as || item.as->kind != ast::Pick::Kind::one) {
    auto report =
        e.error("E0310", cover(item.span, site.items->back().span), "`concat` takes a sum of dims as one dim");
    if (alone) report.here("the whole needs a dim of its own");
    report.help("as in `concat[cls + patch as token](c, p)`");
    return {};
  }
  std::vector<DimId> parts;
  for (const ast::Name& name : item.pick.names) {
    parts.push_back(dim_named(e, *site.frame->dims, name));
    if (!parts.back()) return {};
  }
  return parts;
}

}  // namespace

Term concat(Elaboration& e, CallSite& site) {
  const auto parts = concat_parts(e, site);
  if (!parts) return Term::poison();
  const ast::Item& item = site.items->front();
  const DimId to = dim_named(e, *site.frame->dims, item.as->name());
  if (!to) return Term::poison();
  if (parts->size() != site.arguments.size()) {
    e.error("E0310", site.span, "`concat` of {} dims takes as many arguments, not {}", parts->size(),
            site.arguments.size());
    return Term::poison();
  }
  std::vector<ValueId> values = alike(e, site);
  if (values.empty()) return Term::poison();
  int64_t sum = 0;
  std::string names, sizes;
  for (size_t i = 0; i < values.size(); ++i) {
    const DimId part = (*parts)[i];
    CallSite one = site;
    one.dims = {part};
    one.dim_spans = {item.pick.names[i].span};
    if (!has_dims(e, one, site.arguments[i], site.spans[i])) return Term::poison();
    sum += e.size(part);
    names += (names.empty() ? "" : " + ") + e.name(part);
    sizes += (sizes.empty() ? "" : " + ") + std::to_string(e.size(part));
  }
  if (sum != e.size(to)) {
    e.error("E0311", item.span, "`{}` and `{}` differ in size", names, e.name(to))
        .here("{} = {} = {}, but {} = {}", names, sizes, sum, e.name(to), e.size(to));
    return Term::poison();
  }
  if (!is_new(e, site, values, to, *parts, item.as->span) || !widen(e, site, values, *parts)) return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.value(ConcatOp{*parts, to}, values));
}

Term stack(Elaboration& e, CallSite& site) {
  std::vector<ValueId> values = alike(e, site);
  if (values.empty()) return Term::poison();
  const std::vector<DimId> none(values.size());
  if (static_cast<int64_t>(values.size()) != e.size(site.dim())) {
    e.error("E0311", site.dim_spans[0], "`{}` has another size than there are values", e.name(site.dim()))
        .here("{} = {}, but {} value{} given", e.name(site.dim()), e.size(site.dim()), values.size(),
              values.size() == 1 ? " is" : "s are");
    return Term::poison();
  }
  if (!is_new(e, site, values, site.dim(), none, site.dim_spans[0]) || !widen(e, site, values, none))
    return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.value(ConcatOp{none, site.dim()}, values));
}

Term pad(Elaboration& e, CallSite& site) {
  const auto dims = one_as_other(e, site);
  const auto before = whole_option(e, site, "before", 0);
  const auto value = number_option(e, site, "value", 0);
  if (!dims || !before || !value) return Term::poison();
  const auto [from, to] = *dims;
  const Span brackets = site.items->front().span;
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  CallSite one = site;
  one.dims = {from};
  one.dim_spans = {brackets};
  if (!x || !has_dims(e, one, site.arguments[0], site.spans[0])) return Term::poison();
  if (*before < 0 || *before + e.size(from) > e.size(to)) {
    e.error("E0311", brackets, "`{}` has no room for `{}` after {} of padding", e.name(to), e.name(from), *before)
        .here("{} = {}, {} = {}", e.name(from), e.size(from), e.name(to), e.size(to));
    return Term::poison();
  }
  if (from == to) return site.arguments[0];
  if (!is_new(e, site, {x}, to, {from}, brackets)) return Term::poison();
  const auto given = site.options.find("value");
  if (!literal_as(e, *value, e.type(x), given == site.options.end() ? site.span : given->second.second))
    return Term::poison();
  e.build.span = site.span;
  return Term::of(e.build.value(PadOp{from, to, *before, 1, *value}, {x}));
}

}  // namespace mesh::elaboration::functions
