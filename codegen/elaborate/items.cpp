#include "codegen/elaborate/items.h"

#include <algorithm>
#include <cmath>

#include "codegen/elaborate/changes.h"
#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/extents.h"
#include "codegen/elaborate/repeat.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration {
namespace {

std::optional<std::vector<DimId>> dims_of(Elaboration& e, const Frame& frame, const ast::Pick& pick) {
  std::vector<DimId> dims;
  for (const ast::Name& name : pick.names) {
    const DimId dim = dim_named(e, *frame.dims, name);
    if (!dim) return {};
    dims.push_back(dim);
  }
  return dims;
}

int64_t product(const Elaboration& e, const std::vector<DimId>& dims) {
  int64_t size = 1;
  for (DimId dim : dims) size = product_or_largest(size, e.size(dim));
  return size;
}

std::string size_text(const Elaboration& e, const std::vector<DimId>& dims) {
  std::string names, sizes;
  for (DimId dim : dims) {
    names += (names.empty() ? "" : " * ") + e.name(dim);
    sizes += (sizes.empty() ? "" : " * ") + std::to_string(e.size(dim));
  }
  if (dims.size() == 1) return fmt::format("{} = {}", names, sizes);
  return fmt::format("{} = {} = {}", names, sizes, product(e, dims));
}

/// What stands within brackets, where a bare dim is its size.
Term within_brackets(Elaboration& e, Frame& frame, const ast::Expr& expr) {
  Frame inside;
  inside.outer = &frame;
  inside.dims = frame.dims;
  inside.attributes = true;
  return expression(e, inside, expr);
}

std::optional<int64_t> whole(Elaboration& e, const Term& term, const ast::Expr& expr, const std::string& what) {
  if (term.poisoned()) return {};
  if (!term.is_number()) {
    e.error("E0315", expr.span, "{} must be a number that is known now", what).here("this is {}", describe(e, term));
    return {};
  }
  if (std::floor(term.number) == term.number && std::abs(term.number) < 9e15) return static_cast<int64_t>(term.number);
  e.error("E0330", expr.span, "{} must be a whole number", what).here("this is {}", describe(e, term));
  return {};
}

std::optional<int64_t> whole_number(Elaboration& e, Frame& frame, const ast::Expr& expr, const std::string& what) {
  return whole(e, within_brackets(e, frame, expr), expr, what);
}

/// `h[seq = position[seq]]` in `repeat seq`: one index that is computed. E0315 for several, and for what is no index.
std::optional<Change> computed_selection(Elaboration& e, DimId dim, ValueId index, const ast::Item& item) {
  const ast::Expr& expr = *item.range->begin;
  const ValueType type = e.type(index);
  const bool counts = type.element == Type::i32 && (!type.index_of || type.index_of == dim);
  if (!counts || !type.dims.empty()) {
    auto report = e.error("E0315", expr.span, "an index within brackets is one whole number");
    report.here(to_string(e.graph, type));
    const std::string text(e.sources.text(expr.span));
    const std::string cast = type.index_of == dim ? text : fmt::format("index({})({})", e.name(dim), text);
    report.help(fmt::format("`take[{}](..., {})` reads at several", e.name(dim), cast));
    return {};
  }
  e.build.span = expr.span;
  Change change{{dim}, {}, {}, item.span};
  change.index = e.build.cast(index, Type::i32, dim);
  return change;
}

std::optional<Change> selection(Elaboration& e, Frame& frame, const ast::Item& item) {
  const DimId dim = dim_named(e, *frame.dims, item.pick.name());
  const Term term = within_brackets(e, frame, *item.range->begin);
  if (dim && term.is_tensor()) return computed_selection(e, dim, term.value, item);
  const auto index = whole(e, term, *item.range->begin, "an index");
  if (!dim || !index) return {};
  if (*index < 0 || *index >= e.size(dim)) {
    auto report = e.error("E0330", item.range->begin->span, "`{}` has no index {}", e.name(dim), *index);
    report.here("its indices are 0 to {}", e.size(dim) - 1)
        .label(e.graph.dim(dim).span, "{} = {}", e.name(dim), e.size(dim));
    if (*index < 0) report.help(fmt::format("counted from the end: `{0} = size[{0}] - {1}`", e.name(dim), -*index));
    return {};
  }
  return Change{{dim}, {}, Change::Part{*index, 1}, item.span};
}

/// `3.. step -1`, which is read as a slice up to `step - 1`. E0330.
bool counts_down(Elaboration& e, Frame& frame, const ast::Item& item) {
  const ast::ExprPtr& end = item.range->end;
  const auto* difference = end == nullptr ? nullptr : ast::as<ast::Binary>(*end);
  if (difference == nullptr || difference->op != ast::BinaryOp::subtract) return false;
  const auto* word = ast::as<ast::Path>(*difference->left);
  if (word == nullptr || word->text() != "step" || find_name(frame, "step") != nullptr) return false;
  const std::string dim = item.pick.name().text;
  e.error("E0330", end->span, "a slice counts upwards: its step is a whole number of at least 1")
      .help(fmt::format("`flip[{0}](x)` has the last of `{0}` first; a slice of it counts from the end", dim));
  return true;
}

std::optional<Change> slice(Elaboration& e, Frame& frame, const ast::Item& item) {
  const ast::Range& range = *item.range;
  const DimId dim = dim_named(e, *frame.dims, item.pick.name());
  if (counts_down(e, frame, item)) return {};
  const auto begin = whole_number(e, frame, *range.begin, "the beginning of a slice");
  const auto end = range.end ? whole_number(e, frame, *range.end, "the end of a slice")
                   : dim     ? std::optional(e.size(dim))
                             : std::nullopt;
  if (!dim || !begin || !end) return {};
  const int64_t step = range.step ? static_cast<int64_t>(range.step->value) : 1;
  if (range.step && (!range.step->integer() || step < 1)) {
    e.error("E0330", range.step->span, "the step of a slice must be a whole number of at least 1");
    return {};
  }
  if (*begin < 0 || *begin >= *end || *end > e.size(dim)) {
    e.error("E0330", range.span, "{}..{} is no part of `{}`", *begin, *end, e.name(dim))
        .here(*begin < *end ? fmt::format("its indices are 0 to {}", e.size(dim) - 1) : std::string("this is empty"))
        .label(e.graph.dim(dim).span, "{} = {}", e.name(dim), e.size(dim));
    return {};
  }
  const int64_t taken = (*end - *begin + step - 1) / step;
  DimId to = dim;
  if (item.as) {
    if (item.as->kind != ast::Pick::Kind::one) {
      e.error("E0311", item.as->span, "a slice is one dim")
          .help("split it afterwards, in brackets of its own: `x[a = 0..6 as part][part as b * c]`");
      return {};
    }
    to = dim_named(e, *frame.dims, item.as->name());
    if (!to) return {};
  }
  if (e.size(to) != taken) {
    auto report = e.error("E0311", item.span, "a slice of {} of `{}` is not `{}`", taken, e.name(dim), e.name(to));
    report.here("{} = {}", e.name(to), e.size(to));
    if (!item.as) report.help(fmt::format("name the dim of the part: `{} as part`", e.sources.text(item.span)));
    return {};
  }
  return Change{{dim}, {to}, Change::Part{*begin, step}, item.span};
}

std::optional<Change> neighbour(Elaboration& e, const Frame& frame, const ast::Item& item) {
  const DimId dim = dim_named(e, *frame.dims, item.pick.name());
  if (!dim) return {};
  const Dim& declared = e.graph.dim(dim);
  if (!declared.edge) {
    e.error("E0332", item.span, "dim `{}` has no edge: what lies beyond its ends?", e.name(dim))
        .here("the neighbour of the {} has none", item.pick.shift > 0 ? "last" : "first")
        .label(declared.span, "declared here")
        .help(
            "`dim {0} = ... edge \"wrap\"` goes on at the other end, `edge \"clamp\"` repeats the last element, `edge "
            "0` "
            "puts a number there",
            e.name(dim));
    return {};
  }
  return Change{{dim}, {dim}, {}, item.span, item.pick.shift};
}

std::optional<Change> change_of(Elaboration& e, Frame& frame, const ast::Item& item) {
  switch (item.kind()) {
    case ast::ItemKind::rename:
    case ast::ItemKind::split:
    case ast::ItemKind::merge: {
      const auto from = dims_of(e, frame, item.pick), to = dims_of(e, frame, *item.as);
      if (!from || !to) return {};
      if (product(e, *from) != product(e, *to)) {
        e.error("E0311", item.span, "`{}` and `{}` differ in size", item.pick.text(), item.as->text())
            .here("{}, but {}", size_text(e, *from), size_text(e, *to));
        return {};
      }
      return Change{*from, *to, {}, item.span};
    }
    case ast::ItemKind::select: return selection(e, frame, item);
    case ast::ItemKind::slice: return slice(e, frame, item);
    case ast::ItemKind::shift: return neighbour(e, frame, item);
    case ast::ItemKind::concat:
    case ast::ItemKind::window:
      e.error("E0311", item.span, "this belongs in the brackets of a function, as in `conv[...]` and `concat[...]`");
      return {};
    case ast::ItemKind::dim:
    case ast::ItemKind::rest: break;
  }
  auto report = e.error("E0311", item.span, "brackets after a value change its dims, and this changes nothing");
  if (item.kind() == ast::ItemKind::dim)
    for (const Loop* loop : e.loops)
      if (item.pick.name().text == e.name(loop->dim))
        report.help(fmt::format("`x[{0} = position[{0}]]` is that of this turn of `repeat {0}`", e.name(loop->dim)));
  report.help(
      "`x[seq as key]` renames, `x[heads as kv * group]` splits, `x[kv * group as heads]` merges, `x[seq = 0]` "
      "selects");
  return {};
}

Term size_of(Elaboration& e, Frame& frame, const ast::Index& index) {
  const auto dims = listed_dims(e, frame, index.items, "`size`");
  if (!dims) return Term::poison();
  return Term::of(static_cast<double>(product(e, *dims)));
}

Term position_of(Elaboration& e, Frame& frame, const ast::Index& index, Span span) {
  const auto dims = listed_dims(e, frame, index.items, "`position`");
  if (!dims) return Term::poison();
  if (dims->size() != 1) {
    e.error("E0310", span, "`position` takes one dim")
        .here("{} are given", dims->size())
        .help("positions of two dims meet in a comparison: `position[seq] >= position[key]`");
    return Term::poison();
  }
  e.build.span = span;
  if (const ValueId turn = loop_index(e, dims->front())) return Term::of(turn);
  return Term::of(e.build.position(dims->front()));
}

}  // namespace

std::optional<std::vector<DimId>> listed_dims(Elaboration& e, Frame& frame, const std::vector<ast::Item>& items,
                                              const std::string& what) {
  std::vector<DimId> dims;
  for (const ast::Item& item : items) {
    if (item.rest) {
      if (!frame.dims->rest) {
        e.error("E0310", item.span, "`...` stands for dims that the block's signature does not name")
            .here(frame.block == nullptr ? "this is no block" : "the signature has no `...`");
        return {};
      }
      for (DimId dim : *frame.dims->rest) dims.push_back(dim);
      continue;
    }
    if (item.kind() != ast::ItemKind::dim || item.pick.kind != ast::Pick::Kind::one) {
      e.error("E0310", item.span, "{} takes dims in its brackets", what).here("this is more than a dim");
      return {};
    }
    const DimId dim = dim_named(e, *frame.dims, item.pick.name());
    if (!dim) return {};
    if (contains(dims, dim)) {
      e.error("E0312", item.span, "dim `{}` is listed twice", e.name(dim));
      return {};
    }
    dims.push_back(dim);
  }
  return dims;
}

Term index_expression(Elaboration& e, Frame& frame, const ast::Index& index, Span span) {
  if (const auto* path = ast::as<ast::Path>(*index.value); path != nullptr && path->simple()) {
    const std::string& name = path->parts.front().text;
    if (find_name(frame, name) == nullptr) {
      if (name == "size") return size_of(e, frame, index);
      if (name == "position") return position_of(e, frame, index, span);
      if (name == "fan_in" || name == "he_normal") {
        e.error("E0318", span, "`{}` draws random numbers, which only a parameter's initial value may", name)
            .help("`random_normal[dim]()` and `random_uniform[dim]()` draw numbers in a step");
        return Term::poison();
      }
    }
  }
  const Term term = expression(e, frame, *index.value);
  std::vector<Change> changes;
  bool good = true;
  for (const ast::Item& item : index.items) {
    const auto change = change_of(e, frame, item);
    if (change) changes.push_back(*change);
    good = good && change.has_value();
  }
  if (!good || term.poisoned()) return Term::poison();
  if (!term.is_tensor() && !term.is_masked()) {
    e.error("E0304", span, "{} has no dims", describe(e, term)).label(index.value->span, "here");
    return Term::poison();
  }
  return with_changes(e, term, changes, index.value->span);
}

}  // namespace mesh::elaboration
