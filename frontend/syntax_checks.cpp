#include <cmath>
#include <map>
#include <string_view>

#include "frontend/syntax_errors.h"

namespace mesh {

void check_syntax(const ast::Item& item, DiagnosticSink& sink) {
  using Kind = ast::Pick::Kind;
  if (item.rest) return;
  if (item.as && (item.as->kind == Kind::sum || item.as->kind == Kind::shift)) {
    sink.error("E0115", item.as->span, "a dim cannot become `{}`", item.as->text())
        .here("expected one dim or a product of dims")
        .note(
            "`heads as kv * group` splits a dim, `kv * group as heads` merges two, `cls + patch as token` joins them");
  } else if (item.as && item.as->kind == Kind::product && item.pick.kind != Kind::one) {
    sink.error("E0115", item.span, "dims are merged or split, not both at once")
        .help("merge first, then split: `x[{} as whole][whole as {}]`", item.pick.text(), item.as->text());
  } else if (item.pick.kind == Kind::shift && item.as) {
    sink.error("E0115", item.as->span, "a shifted dim keeps its name").help("rename it in brackets of its own");
  } else if (item.pick.kind != Kind::one && (item.range || item.window)) {
    sink.error("E0115", item.pick.span, "expected one dim, found `{}`", item.pick.text())
        .here("only one dim is {}", item.window ? "paired with a window" : "selected or sliced");
  } else if (item.window && item.range) {
    sink.error("E0115", item.range->span, "a dim cannot have a window and a range");
  } else if (item.kind() == ast::ItemKind::select && item.as) {
    sink.error("E0115", item.as->span, "`{}` is gone after the selection", item.pick.text())
        .here("nothing is left to rename")
        .help("a slice keeps the dim: `{} = 0..1 as {}`", item.pick.text(), item.as->text());
  } else if (item.range && item.range->step && !item.range->open) {
    sink.error("E0115", item.range->step->span, "a step needs a range").help("a range is written `begin..end`");
  }
}

void check_syntax(const ast::Compare& compare, DiagnosticSink& sink) {
  if (ast::as<ast::Compare>(*compare.left) == nullptr) return;
  sink.error("E0116", compare.op_span, "comparisons do not chain")
      .label(compare.left->span, "gives a bool")
      .help("write `a < b and b < c`, or set parentheses");
}

void check_syntax(const ast::Number& number, DiagnosticSink& sink) {
  if (std::isfinite(number.value)) return;
  sink.error("E0118", number.span, "number `{}` is out of range", number.text)
      .note("the largest number is about 1.8e308");
}

namespace {

/// A name that says twice what something is: which of the two counts would be a guess.
class GivenOnce {
 public:
  explicit GivenOnce(DiagnosticSink& sink) : sink_(sink) {}

  void name(const ast::Name& name) {
    const auto [first, fresh] = spans_.try_emplace(name.text, name.span);
    if (!fresh)
      sink_.error("E0122", name.span, "`{}` is given twice", name.text)
          .label(first->second, "first here")
          .help("leave one of them out");
  }

 private:
  DiagnosticSink& sink_;
  std::map<std::string_view, Span> spans_;
};

}  // namespace

void check_syntax(const ast::Attributes& attributes, DiagnosticSink& sink) {
  GivenOnce once(sink);
  for (const ast::Attribute& attribute : attributes) once.name(attribute.key);
}

void check_syntax(const std::vector<ast::Argument>& arguments, DiagnosticSink& sink) {
  GivenOnce once(sink);
  for (const ast::Argument& argument : arguments)
    if (argument.name) once.name(*argument.name);
}

void check_whole(const ast::Number& shift, DiagnosticSink& sink) {
  if (shift.integer() && shift.value < 9e18) return;
  sink.error("E0115", shift.span, "a shift is a whole number, found `{}`", shift.text);
}

void check_callee(const ast::Expr& callee, DiagnosticSink& sink) {
  sink.error("E0117", callee.span, "only a name can be called").help("give the value a name first: `f = ...`");
}

void check_version(const ast::Number& version, DiagnosticSink& sink) {
  constexpr int known = 1;
  if (version.value == known) return;
  sink.error("E0120", version.span, "version {} of the language, which this meshc does not know", version.text)
      .here("it knows version {}", known)
      .help("use a meshc that knows it, or write the file for this one: `language {}`", known);
}

void check_place_of_version(const std::vector<ast::Decl>& decls, DiagnosticSink& sink) {
  for (const ast::Decl& decl : decls) {
    const bool first = &decl == &decls.front();
    if (first || !std::holds_alternative<ast::Version>(decl.node)) continue;
    sink.error("E0121", decl.span, "the version of the language is said below other lines of the file")
        .label(decls.front().span, "the file begins here")
        .help("write it above all else, once: what is read before it would be read without knowing the version");
  }
}

}  // namespace mesh
