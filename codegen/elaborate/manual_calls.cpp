#include "codegen/elaborate/manual_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/manual.h"
#include "codegen/elaborate/terms.h"
#include "codegen/graph/dims.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

using Kind = AcrossRanks::Kind;

/// What the call says: its operand, its axis, and in brackets dims, perhaps as others.
struct Written {
  std::string name;
  Span span;
  DimId ranks;
  ValueId x;
  Span x_span;
  int64_t by = 0;
  Reduce reduce = Reduce::sum;
  struct Pair {
    DimId from, to;  // `to` unset: not written
    Span span;
  };
  std::vector<Pair> dims;
};

struct Form {
  std::string_view name;
  Kind kind;
  size_t dims;          // in brackets
  bool operand, by;     // has one
  const char* example;  // for messages
  constexpr bool reduces() const { return kind == Kind::all_reduce || kind == Kind::reduce_scatter; }
};

constexpr std::array<Form, 6> forms = {{
    {"all_gather", Kind::all_gather, 1, true, false, "all_gather[d](x, over: model)"},
    {"all_reduce", Kind::all_reduce, 0, true, false, "all_reduce(x, over: model)"},
    {"all_to_all", Kind::all_to_all, 2, true, false, "all_to_all[cut, gathered](x, over: model)"},
    {"coordinate", Kind::coordinate, 0, false, false, "coordinate(model)"},
    {"permute", Kind::permute, 0, true, true, "permute(x, by: 1, over: model)"},
    {"reduce_scatter", Kind::reduce_scatter, 1, true, false, "reduce_scatter[d](x, over: model)"},
}};

const Form& form_of(std::string_view name) { return *std::ranges::find(forms, name, &Form::name); }

/// E0356 unless a region that is open here is manual over the axis.
DimId open_axis(Elaboration& e, const std::string& call, const ast::Expr& written) {
  const auto* path = ast::as<ast::Path>(written);
  const std::string axis(e.sources.text(written.span));
  if (path != nullptr && path->simple())
    if (const DimId ranks = ranks_of(e, axis)) return ranks;
  if (e.regions.empty()) {
    e.error("E0356", written.span, "`{}` outside of a manual region", call)
        .here("no `manual over {}` is open here", axis)
        .help(fmt::format("`manual over {} {{ ... }}` opens one; elsewhere movements are found from the layout", axis));
    return {};
  }
  std::vector<std::string> axes;
  for (const Region* region : e.regions)
    for (const Region::Axis& one : region->axes) axes.push_back(one.name);
  auto report = e.error("E0356", written.span, "the region is not manual over `{}`", axis);
  if (const auto near = did_you_mean(axis, axes)) report.here("did you mean `{}`?", *near).fix(written.span, *near);
  report.label(e.regions.back()->span, "the region");
  return {};
}

void wrong_call(Elaboration& e, const Form& form, Span span, const std::string& what) {
  e.error("E0310", span, "`{}` {}", form.name, what).help(fmt::format("as in `{}`", form.example));
}

bool read_dims(Elaboration& e, Frame& frame, const Form& form, const ast::Call& call, Written& written) {
  if (call.items.size() != form.dims) {
    const std::string takes = form.dims == 0   ? "takes no dims in brackets"
                              : form.dims == 1 ? "takes one dim in brackets"
                                               : "takes two dims in brackets: the one to cut, the one to gather";
    wrong_call(e, form, call.items.empty() ? call.callee.span : cover(call.items.front().span, call.items.back().span),
               takes);
    return false;
  }
  for (const ast::Item& item : call.items) {
    const bool plain = item.kind() == ast::ItemKind::dim || item.kind() == ast::ItemKind::rename;
    if (item.rest || !plain || item.pick.kind != ast::Pick::Kind::one) {
      wrong_call(e, form, item.span, "takes a dim, or one as another");
      return false;
    }
    const DimId from = dim_named(e, *frame.dims, item.pick.name());
    const DimId to = item.as ? dim_named(e, *frame.dims, item.as->name()) : DimId{};
    if (!from || (item.as && !to)) return false;
    written.dims.push_back({from, to, item.span});
  }
  return true;
}

/// `by: 1`: how many ranks further each hands what it has.
bool read_by(Elaboration& e, Frame& frame, const Form& form, const ast::Expr& value, Written& written) {
  const auto by = constant(e, *frame.dims, value, "`by:`");
  if (!by) return false;
  if (std::floor(*by) == *by && std::abs(*by) < 1e9) {
    written.by = static_cast<int64_t>(*by);
    return true;
  }
  wrong_call(e, form, value.span, "needs a whole number of ranks");
  return false;
}

/// `reduce: "max"`: what becomes of what the ranks have. E0315.
bool read_reduce(Elaboration& e, const ast::Expr& value, Written& written) {
  static const std::map<std::string, Reduce> words = {{"sum", Reduce::sum}, {"max", Reduce::max}, {"min", Reduce::min}};
  const auto* word = ast::as<ast::String>(value);
  const auto known = word == nullptr ? words.end() : words.find(word->value);
  if (known == words.end()) {
    e.error("E0315", value.span, "`reduce:` is not one of \"sum\", \"max\" and \"min\"");
    return false;
  }
  written.reduce = known->second;
  return true;
}

/// E0310 for arguments that the form does not have or lacks.
bool read_arguments(Elaboration& e, Frame& frame, const Form& form, const ast::Call& call, Written& written) {
  bool good = true, has_by = false, has_axis = false;
  for (const ast::Argument& argument : call.arguments) {
    const std::string key = argument.name ? argument.name->text : form.operand ? "" : "over";
    if (key == "over" && !has_axis && (argument.name.has_value() == form.operand)) {
      has_axis = true;
      written.ranks = open_axis(e, std::string(form.name), *argument.value);
      good = good && written.ranks;
    } else if (key == "by" && form.by && !has_by) {
      has_by = true;
      good = read_by(e, frame, form, *argument.value, written) && good;
    } else if (key == "reduce" && form.reduces()) {
      good = read_reduce(e, *argument.value, written) && good;
    } else if (key.empty() && !written.x_span.known()) {
      written.x = tensor_of(e, expression(e, frame, *argument.value), argument.value->span);
      written.x_span = argument.value->span;
      good = good && written.x;
    } else {
      wrong_call(e, form, argument.name ? argument.name->span : argument.value->span, "has no such argument");
      good = false;
    }
  }
  const bool lacks = !has_axis || (form.operand && !written.x_span.known()) || (form.by && !has_by);
  if (lacks && good) wrong_call(e, form, written.span, !has_axis ? "needs its axis" : "lacks an argument");
  return good && !lacks;
}

/// A dim with its part: written `whole as part` or the other way round, or a dim that the region cuts over the axis.
struct Parts {
  DimId whole, part;
};
std::optional<Parts> parts_of(Elaboration& e, const Written& call, const Written::Pair& pair, bool to_part) {
  Parts parts;
  if (pair.to) {
    parts = to_part ? Parts{pair.from, pair.to} : Parts{pair.to, pair.from};
  } else {
    for (const Region* region : e.regions)
      for (const Region::Cut& cut : region->cuts)
        if (cut.local == pair.from && cut.ranks == call.ranks) parts = {cut.whole, cut.local};
    if (!parts.whole) {
      const std::string named = fmt::format("{} as other", e.name(pair.from));
      e.error("E0351", pair.span, "`{}` is not cut over `{}` in the region", e.name(pair.from), axis_of(e, call.ranks))
          .here(to_part ? "what is a rank's part of it called?" : "what are all parts together called?")
          .help(fmt::format("say it: `{}`, with `dim other = {} {} {}`",
                            call.dims.size() == 1 ? fmt::format("{}[{}]", call.name, named) : named, e.size(pair.from),
                            to_part ? "/" : "*", e.size(call.ranks)));
      return {};
    }
  }
  const int64_t count = e.size(call.ranks);
  if (e.size(parts.whole) != count * e.size(parts.part)) {
    e.error("E0351", pair.span, "`{}` is not {} times `{}`", e.name(parts.whole), count, e.name(parts.part))
        .here("{} = {}, {} = {}, and `{}` has {} ranks", e.name(parts.whole), e.size(parts.whole), e.name(parts.part),
              e.size(parts.part), axis_of(e, call.ranks), count);
    return {};
  }
  const DimId needed = to_part ? parts.whole : parts.part;
  if (has(e.type(call.x).dims, needed)) return parts;
  e.error("E0304", pair.span, "`{}` over `{}`: its operand has no dim `{}`", call.name, e.name(needed), e.name(needed))
      .label(call.x_span, to_string(e.graph, e.type(call.x)));
  return {};
}

/// E0312 where the operand has the dim already that would be put in place of another.
bool is_new(Elaboration& e, const Written& call, DimId dim, Span span) {
  if (!has(e.type(call.x).dims, dim)) return true;
  e.error("E0312", span, "the value would have dim `{}` twice", e.name(dim))
      .label(call.x_span, to_string(e.graph, e.type(call.x)));
  return false;
}

bool can_add(Elaboration& e, const Form& form, const Written& call) {
  if (!form.reduces()) return true;
  const ValueType& type = e.type(call.x);
  if (type.element != Type::boolean && !type.index_of) return true;
  e.error("E0313", call.span, "`{}` adds up, and this is no number", form.name)
      .label(call.x_span, to_string(e.graph, type));
  return false;
}

}  // namespace

const std::vector<std::string_view>& calls_across_ranks() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    all.reserve(std::size(forms));
    for (const Form& form : forms) all.push_back(form.name);
    return all;
  }();
  return names;
}

bool is_across_ranks(std::string_view name) { return std::ranges::count(calls_across_ranks(), name) > 0; }

Term across_ranks(Elaboration& e, Frame& frame, const ast::Call& call, Span span) {
  const Form& form = form_of(call.callee.text());
  Written written{std::string(form.name), span, {}, {}, {}, 0, Reduce::sum, {}};
  const bool dims_good = read_dims(e, frame, form, call, written);
  if (!read_arguments(e, frame, form, call, written) || !dims_good || !can_add(e, form, written)) return Term::poison();
  e.build.span = span;
  AcrossRanks across{form.kind, written.ranks, {}, {}, {}, {}, written.by, written.reduce};
  if (form.kind == Kind::coordinate) written.x = e.build.literal(0, Type::i32);
  ValueType type = e.type(written.x);
  const bool cuts = form.kind == Kind::reduce_scatter || form.kind == Kind::all_to_all;
  const bool gathers = form.kind == Kind::all_gather || form.kind == Kind::all_to_all;
  if (cuts) {
    const auto parts = parts_of(e, written, written.dims.front(), true);
    if (!parts || !is_new(e, written, parts->part, written.dims.front().span)) return Term::poison();
    across.split = parts->whole;
    across.scattered = parts->part;
    type = with_dim(type, parts->whole, parts->part);
  }
  if (gathers) {
    const auto parts = parts_of(e, written, written.dims.back(), false);
    if (!parts || !is_new(e, written, parts->whole, written.dims.back().span)) return Term::poison();
    across.gathered = parts->part;
    across.whole = parts->whole;
    type = with_dim(type, parts->part, parts->whole);
  }
  e.build.span = span;
  return Term::of(stand_in(e, across, written.x, type));
}

}  // namespace mesh::elaboration
