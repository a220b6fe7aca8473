#include "codegen/elaborate/terms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/elaborate/dims.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

const std::vector<std::string>& element_names() {
  static const std::vector<std::string> names = {"real", "f32", "f64", "bf16", "f16", "i32", "i64", "u8", "bool"};
  return names;
}

/// "batch, embed", as brackets have them.
std::string listed(const Elaboration& e, const std::vector<DimId>& dims) {
  std::string text;
  for (DimId dim : dims) text += (text.empty() ? "" : ", ") + e.name(dim);
  return text;
}

std::string element_text(const Elaboration& e, const ValueType& type) {
  return to_string(e.graph, ValueType{type.element, type.index_of, {}});
}

}  // namespace

bool is_float(Type type) { return type == Type::f32 || type == Type::f64 || type == Type::bf16 || type == Type::f16; }

namespace {

/// The largest number of a float type.
double largest_of(Type element) {
  switch (element) {
    case Type::bf16: return 0x1.fep127;
    case Type::f16: return 65504;
    case Type::f32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

}  // namespace

bool holds(Type element, double number) {
  if (is_float(element)) return std::abs(number) <= largest_of(element);
  if (std::floor(number) != number) return false;
  if (element == Type::u8) return number >= 0 && number <= 255;
  if (element == Type::i32) return number >= -0x1p31 && number < 0x1p31;
  return element == Type::i64 && number >= -0x1p63 && number < 0x1p63;
}

bool is_integer(Type type) { return type == Type::i32 || type == Type::i64 || type == Type::u8; }

Type default_float(const Elaboration& e) { return e.options.f64 ? Type::f64 : Type::f32; }

std::optional<Type> element_named(const Elaboration& e, const std::string& name) {
  if (name == "real" || name == "f32") return default_float(e);
  if (name == "f64") return Type::f64;
  if (name == "bf16") return e.options.f64 ? Type::f64 : Type::bf16;
  if (name == "f16") return e.options.f64 ? Type::f64 : Type::f16;
  if (name == "i32") return Type::i32;
  if (name == "i64") return Type::i64;
  if (name == "u8") return Type::u8;
  if (name == "bool") return Type::boolean;
  return {};
}

ValueType WrittenType::with_rest(const std::vector<DimId>& rest_dims) const {
  ValueType type{element, index_of, dims};
  if (rest)
    type.dims.insert(type.dims.begin() + static_cast<std::ptrdiff_t>(rest_at), rest_dims.begin(), rest_dims.end());
  return type;
}

std::optional<WrittenType> written_type(Elaboration& e, const DimScope& scope, const ast::Type& type) {
  WrittenType result;
  result.span = type.span;
  bool good = true;
  if (type.index_of) {
    result.element = Type::i32;
    result.index_of = dim_named(e, scope, *type.index_of);
    good = bool(result.index_of);
  } else if (const auto element = element_named(e, type.element.text)) {
    result.element = *element;
  } else if (e.declared.blocks.count(type.element.text) > 0) {
    e.error("E0203", type.element.span, "`{}` is a block, not an element type", type.element.text)
        .help("an instance of a block is made by `param name : {}[...]`, without a value", type.element.text);
    good = false;
  } else {
    auto report = e.error("E0203", type.element.span, "unknown element type `{}`", type.element.text);
    if (const auto near = did_you_mean(type.element.text, element_names())) report.here("did you mean `{}`?", *near);
    else report.help("element types are real, f32, f64, bf16, f16, i32, i64, u8, bool and index(dim)");
    good = false;
  }
  for (const ast::Slot& slot : type.slots) {
    if (slot.rest) {
      if (result.rest) {
        e.error("E0312", slot.span, "`...` stands twice in one type").here("the second one");
        good = false;
      }
      result.rest = true;
      result.rest_at = result.dims.size();
      continue;
    }
    if (slot.value) {
      e.error("E0310", slot.span, "`{} = {}` binds a dim of a block, but `{}` is an element type", slot.dim.text,
              slot.value->text, type.element.text);
      good = false;
      continue;
    }
    const DimId dim = dim_named(e, scope, slot.dim);
    if (!dim) {
      good = false;
    } else if (contains(result.dims, dim)) {
      e.error("E0312", slot.span, "dim `{}` stands twice in one type", e.name(dim))
          .here("a type is a set of dims")
          .help(fmt::format("a second name of the same size makes it two dims: `dim other = {}`", e.name(dim)));
      good = false;
    } else {
      result.dims.push_back(dim);
    }
  }
  if (!good) return {};
  return result;
}

ValueId tensor_of(Elaboration& e, const Term& term, Span span, std::optional<Type> element) {
  e.build.span = span;
  switch (term.kind) {
    case Term::Kind::poison: return {};
    case Term::Kind::number: return literal_as(e, term.number, {element.value_or(default_float(e)), {}, {}}, span);
    case Term::Kind::truth: return e.build.literal(term.truth ? 1 : 0, Type::boolean);
    case Term::Kind::tensor: return term.value;
    case Term::Kind::plan:
      e.error("E0310", span, "a plan of `route` is no value")
          .here("this is one")
          .help("`dispatch(x, plan)` brings tokens to experts, `combine(y, plan)` brings back what these give");
      return {};
    case Term::Kind::masked: break;
  }
  e.error("E0308", span, "a masked value stands where its absent entries have no meaning")
      .here(describe(e, term))
      .note(
          "it may feed softmax, log_softmax, logsumexp, max, min, argmax, sum and mean, directly, by a name or a "
          "rename")
      .help("`where(keep, score, other)` says what an absent entry counts as");
  return {};
}

ValueId literal_as(Elaboration& e, double number, const ValueType& like, Span span) {
  if (!holds(like.element, number)) {
    if (std::isnan(number)) {
      e.error("E0118", span, "`{}` is no real number", e.sources.text(span));
    } else if (is_float(like.element)) {
      const std::string type = meshrt::name_of(like.element);
      e.error("E0118", span, "{} is out of range of {}", number, type)
          .note(fmt::format("the largest number of {} is about {:.3g}", type, largest_of(like.element)));
    } else {
      auto report = e.error("E0309", span, "{} is no value of {}", number, element_text(e, like));
      if (is_integer(like.element)) report.help("cast the other operand: `f32(...)`");
    }
    return {};
  }
  e.build.span = span;
  return e.build.literal(number, like.element);
}

namespace {

/// Whether a type holds every number of it.
bool holds_all(Type element, const Untyped& untyped) {
  if (untyped.choice == nullptr) return holds(element, untyped.number);
  return holds_all(element, untyped.choice->yes) && holds_all(element, untyped.choice->no);
}

ValueId untyped_as(Elaboration& e, const Untyped& untyped, const ValueType& like, Span span) {
  if (untyped.choice == nullptr) return literal_as(e, untyped.number, like, span);
  const ValueId yes = untyped_as(e, untyped.choice->yes, like, span);
  const ValueId no = yes ? untyped_as(e, untyped.choice->no, like, span) : yes;
  return no ? e.build.map(MapFunction::where, {untyped.choice->condition, yes, no}) : no;
}

Untyped changed(const Untyped& untyped, const std::function<double(double)>& change) {
  if (untyped.choice == nullptr) return {change(untyped.number), nullptr};
  const Choice& choice = *untyped.choice;
  return {0,
          std::make_shared<Choice>(Choice{choice.condition, changed(choice.yes, change), changed(choice.no, change)})};
}

}  // namespace

ValueId untyped_as(Elaboration& e, const Term& term, const ValueType& like, Span span) {
  return untyped_as(e, Untyped{term.number, term.choice}, like, span);
}

Term with_numbers(const Term& term, ValueId value, const std::function<double(double)>& change) {
  Term result = Term::of(value);
  if (term.choice != nullptr) result.choice = changed({0, term.choice}, change).choice;
  return result;
}

std::optional<Pair> meet(Elaboration& e, const Term& left, const Term& right, Span left_span, Span right_span, Span at,
                         const std::string& what) {
  if (left.poisoned() || right.poisoned()) return {};
  Pair pair;
  if (left.is_untyped() && right.is_tensor() && !right.is_untyped()) {
    pair = {untyped_as(e, left, e.type(right.value), left_span), right.value};
  } else if (right.is_untyped() && left.is_tensor() && !left.is_untyped()) {
    pair = {left.value, untyped_as(e, right, e.type(left.value), right_span)};
  } else {
    pair.left = tensor_of(e, left, left_span);
    pair.right = tensor_of(e, right, right_span);
  }
  e.build.span = at;
  if (!pair.left || !pair.right) return {};
  if (e.type(pair.right).element == Type::f32) pair.left = e.build.computed(pair.left);
  if (e.type(pair.left).element == Type::f32) pair.right = e.build.computed(pair.right);
  const ValueType l = e.type(pair.left), r = e.type(pair.right);
  const bool literal_meets_index = left.is_untyped() || right.is_untyped();
  if (l.element == r.element && (l.index_of == r.index_of || literal_meets_index)) return pair;
  auto report = e.error("E0309", at, "{} mixes {} and {}", what, element_text(e, l), element_text(e, r));
  report.label(left_span, describe(e, left)).label(right_span, describe(e, right));
  const bool left_is_it = is_float(l.element) || !is_float(r.element);
  const ValueType& target = left_is_it ? l : r;
  report.help(fmt::format("write the cast that is meant: `{}({})`", element_text(e, target),
                          e.sources.text(left_is_it ? right_span : left_span)));
  return {};
}

namespace {

/// What their declarations say for it that two dims are one under two names: `dim key = seq`. Empty: nothing.
std::string declared_alike(const Dim& a, const Dim& b) {
  if (a.size != b.size) return "";
  if (a.derivation == b.name) return fmt::format("`{}` is declared as `{}`", a.name, b.name);
  if (b.derivation == a.name) return fmt::format("`{}` is declared as `{}`", b.name, a.name);
  if (a.derivation.empty() || a.derivation != b.derivation) return "";
  return fmt::format("`{}` and `{}` are both declared as `{}`", a.name, b.name, a.derivation);
}

std::string as_long(const Dim& a, const Dim& b) {
  return a.size == b.size ? fmt::format("`{}` and `{}` are both {}", a.name, b.name, a.size) : "";
}

struct Twin {
  DimId dim;
  std::string ground;
};

/// The one of `to` that `dim`, of `from`, may be meant to be, where no other could be meant.
std::optional<Twin> twin_of(const Elaboration& e, DimId dim, const std::vector<DimId>& from,
                            const std::vector<DimId>& to) {
  for (const auto ground_of : {declared_alike, as_long}) {
    const auto ground = [&](DimId one, DimId other) { return ground_of(e.graph.dim(one), e.graph.dim(other)); };
    const auto alike = [&](DimId one) { return [&ground, one](DimId other) { return !ground(one, other).empty(); }; };
    if (std::ranges::count_if(to, alike(dim)) != 1) continue;
    const DimId twin = *std::ranges::find_if(to, alike(dim));
    if (std::ranges::count_if(from, alike(twin)) == 1) return Twin{twin, ground(dim, twin)};
  }
  return {};
}

/// "if these dims are meant to be the same (`e` and `d` are both 64): `(text)[e as d]`". Empty where it is not clear
/// which of `from` would be which of `to`.
std::string renaming(const Elaboration& e, const std::vector<DimId>& from, const std::vector<DimId>& to,
                     std::string_view text) {
  std::string items, grounds;
  for (const DimId dim : from) {
    const std::optional<Twin> twin = twin_of(e, dim, from, to);
    if (!twin) return "";
    items += fmt::format("{}{} as {}", items.empty() ? "" : ", ", e.name(dim), e.name(twin->dim));
    grounds += (grounds.empty() ? "" : ", ") + twin->ground;
  }
  if (items.empty()) return "";
  return fmt::format("if these dims are meant to be the same ({}): `({})[{}]`", grounds, text, items);
}

/// What makes one value of those along `dims`. Empty for indices, which have no sum.
std::string reduction(const ValueType& given, const ValueType& wanted, const std::string& dims) {
  if (is_float(given.element)) return fmt::format("`mean[{0}](...)` or `sum[{0}](...)` reduces it", dims);
  if (given.element == Type::boolean && wanted.element == Type::boolean)
    return fmt::format("`min[{0}](f32(...)) > 0` says whether all are true, `max[{0}](f32(...)) > 0` whether one is",
                       dims);
  if (given.index_of && wanted.index_of) return "";
  if (is_float(wanted.element) || given.element == Type::boolean || given.index_of)
    return fmt::format("`mean[{0}](f32(...))` or `sum[{0}](f32(...))` reduces it", dims);
  return fmt::format("`sum[{}](...)` reduces it", dims);
}

}  // namespace

bool one_sided(Elaboration& e, const std::vector<ValueId>& operands, const std::vector<Span>& spans, Span at,
               const std::string& what) {
  std::vector<DimId> all;
  size_t widest = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto& dims = e.type(operands[i]).dims;
    for (DimId dim : missing_from(all, dims)) all.push_back(dim);
    if (dims.size() > e.type(operands[widest]).dims.size()) widest = i;
  }
  if (e.type(operands[widest]).dims.size() == all.size()) return true;
  auto report = e.error("E0303", at, "{} would broadcast both ways", what);
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto& dims = e.type(operands[i]).dims;
    const auto lacks = missing_from(dims, all);
    std::string text = to_string(e.graph, e.type(operands[i]));
    if (!lacks.empty()) text += "   (lacks " + quoted(e, lacks) + ")";
    report.label(spans[i], text);
  }
  report.note("one operand's dims must contain the other's; an outer sum is almost never meant");
  if (operands.size() == 2) {
    const auto &left = e.type(operands[0]).dims, &right = e.type(operands[1]).dims;
    if (const std::string help =
            renaming(e, missing_from(left, right), missing_from(right, left), e.sources.text(spans[1]));
        !help.empty())
      report.help(help);
  }
  report.help(fmt::format("if it is: `broadcast[{}]({})`, or `outer(a, b)` for a product",
                          listed(e, missing_from(e.type(operands[widest]).dims, all)), e.sources.text(spans[widest])));
  return false;
}

Term as_written(Elaboration& e, const Term& term, const ValueType& wanted, Span value_span, Span type_span,
                const std::string& what, bool widen, const char* code) {
  if (term.poisoned()) return term;
  const std::string wanted_text = to_string(e.graph, wanted);
  if (term.is_number() || (term.is_truth() && wanted.element == Type::boolean)) {
    const double number = term.is_number() ? term.number : (term.truth ? 1 : 0);
    if (term.is_number() && wanted.element == Type::boolean) {
      e.error(code, value_span, "{} {} but this is {}", what, wanted_text, describe(e, term))
          .label(type_span, "declared here");
      return Term::poison();
    }
    e.build.span = value_span;
    const ValueId scalar =
        term.is_truth() ? e.build.literal(number, Type::boolean) : literal_as(e, number, wanted, value_span);
    if (!scalar) return Term::poison();
    if (wanted.index_of) e.graph.value(scalar).type.index_of = wanted.index_of;
    return Term::of(e.build.broadcast(scalar, wanted.dims));
  }
  const bool takes_type = term.choice != nullptr && wanted.element != Type::boolean;
  ValueId value = takes_type ? untyped_as(e, term, wanted, value_span) : tensor_of(e, term, value_span);
  if (!value) return Term::poison();
  if (takes_type) e.graph.value(value).type.index_of = wanted.index_of;
  const ValueType given = e.type(value);
  const auto extra = missing_from(wanted.dims, given.dims), lacking = missing_from(given.dims, wanted.dims);
  const bool same_element = given.element == wanted.element && given.index_of == wanted.index_of;
  const bool castable = is_float(given.element) && is_float(wanted.element);
  if (!extra.empty() || (!lacking.empty() && !widen) || !(same_element || castable)) {
    // Of a carry the span is its name, where the value has been bound already.
    const std::string_view text = code == std::string_view("E0307") ? "..." : e.sources.text(value_span);
    auto report = e.error(code, value_span, "{} {} but this gives {}", what, wanted_text, to_string(e.graph, given));
    report.label(type_span, "declared here");
    if (!extra.empty()) {
      report.here("has {}, which the type does not", quoted(e, extra));
      if (const std::string help = renaming(e, extra, lacking, text); !help.empty()) report.help(help);
      if (const std::string help = reduction(given, wanted, listed(e, extra)); !help.empty()) report.help(help);
    } else if (!lacking.empty() && !widen) {
      report.here("lacks {}", quoted(e, lacking))
          .help(fmt::format("if it is meant: `broadcast[{}]({})`", listed(e, lacking), text));
    } else {
      const std::string element = element_text(e, wanted);
      report.here("of {}", element_text(e, given)).help(fmt::format("write the cast: `{}({})`", element, text));
    }
    return Term::poison();
  }
  e.build.span = value_span;
  if (!same_element) value = e.build.cast(value, wanted.element, wanted.index_of);
  return Term::of(e.build.in_order(e.build.broadcast(value, lacking), wanted.dims));
}

Term cast_to(Elaboration& e, const Term& term, Type element, DimId index_of, Span span) {
  if (term.poisoned()) return term;
  e.build.span = span;
  if (term.is_number() || term.is_truth()) {
    double number = term.is_number() ? term.number : (term.truth ? 1 : 0);
    if (element == Type::boolean) number = number != 0;
    if (is_integer(element)) number = std::trunc(number);
    const ValueType like{element, index_of, {}};
    const ValueId value =
        element == Type::boolean ? e.build.literal(number, element) : literal_as(e, number, like, span);
    if (!value) return Term::poison();
    e.graph.value(value).type.index_of = index_of;
    return Term::of(value);
  }
  const bool takes_type = term.choice != nullptr && element != Type::boolean && holds_all(element, {0, term.choice});
  const ValueId value = takes_type ? untyped_as(e, term, {element, {}, {}}, span) : tensor_of(e, term, span);
  if (!value) return Term::poison();
  return Term::of(e.build.cast(value, element, index_of));
}

}  // namespace mesh::elaboration
