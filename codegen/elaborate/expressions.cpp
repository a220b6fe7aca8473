#include "codegen/elaborate/expressions.h"

#include "codegen/elaborate/calls.h"
#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/items.h"
#include "codegen/elaborate/manual.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/state.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

std::vector<std::string> visible_names(const Elaboration& e, const Frame& frame) {
  std::vector<std::string> names;
  for (const Frame* at = &frame; at != nullptr; at = at->outer)
    for (const auto& [name, binding] : at->names) names.push_back(name);
  for (const auto& [name, term] : e.constants) names.push_back(name);
  return names;
}

/// The loop that has ended and whose body bound the name, if there is one.
const ClosedLoop* loop_that_bound(const Frame& frame, const std::string& name) {
  for (const Frame* at = &frame; at != nullptr; at = at->outer)
    for (const ClosedLoop& closed : at->closed)
      if (closed.names.count(name) > 0) return &closed;
  return nullptr;
}

Term unknown_name(Elaboration& e, Frame& frame, const ast::Name& name) {
  if (const DimId dim = find_dim(e, *frame.dims, name.text)) {
    e.error("E0205", name.span, "`{}` is a dim, which is a name in square brackets only", name.text)
        .here("no value is called `{}`", name.text)
        .label(e.graph.dim(dim).span, "the dim is declared here")
        .help(fmt::format("its size is `size[{0}]`, its positions are `position[{0}]`", name.text));
    return Term::poison();
  }
  if (e.declared.blocks.count(name.text) > 0) {
    e.error("E0205", name.span, "block `{}` is called, not used as a value", name.text)
        .help(fmt::format("`{}(...)` calls it", name.text));
    return Term::poison();
  }
  auto report = e.error("E0202", name.span, "unknown name `{}`", name.text);
  if (const auto near = did_you_mean(name.text, visible_names(e, frame))) {
    report.here("did you mean `{}`?", *near);
    if (const Binding* binding = find_name(frame, *near)) report.label(binding->span, "`{}` is here", *near);
  } else if (const ClosedLoop* loop = loop_that_bound(frame, name.text)) {
    const std::string& dim = e.name(loop->loop->dim);
    report.here("names of a `repeat` end with it")
        .label(e.graph.node(loop->loop->node).span, "`{}` is bound in this one", name.text)
        .help(fmt::format("`collect[{}]({})` is its value of every turn; bound before the loop too, it is carried out",
                          dim, name.text));
  } else if (frame.block != nullptr) {
    report.note(fmt::format("a block sees its arguments, its parameters and consts; `{}` is none of these in `{}`",
                            name.text, frame.block->name.text));
  } else if (const auto known = visible_names(e, frame); !known.empty()) {
    report.note("names bound above: " + some_of(known));
  }
  return Term::poison();
}

Term named(Elaboration& e, Frame& frame, const ast::Path& path) {
  const ast::Name& name = path.parts.front();
  if (!path.simple()) {
    e.error("E0202", path.span, "`{}` is no value that can be read here", path.text())
        .help("a path names a parameter in layouts, groups and fetches; inside a model each body has its own names");
    return Term::poison();
  }
  if (Binding* binding = find_name(frame, name.text)) {
    if (frame.ended && binding->span.begin > name.span.begin) {
      e.error("E0202", name.span, "`{}` is not known here yet", name.text).label(binding->span, "it is bound below");
      return Term::poison();
    }
    switch (binding->kind) {
      case Binding::Kind::value:
      case Binding::Kind::stored: return seen_here(e, frame, *binding, name.text, name.span);
      case Binding::Kind::instance:
        e.error("E0205", name.span, "`{}` is an instance of block `{}`, not a value", name.text,
                binding->instance->block->name.text)
            .help(fmt::format("`{}(...)` calls it", name.text));
        return Term::poison();
    }
  }
  if (const auto known = e.constants.find(name.text); known != e.constants.end()) return known->second;
  if (frame.attributes)
    if (const DimId dim = find_dim(e, *frame.dims, name.text)) return Term::of(static_cast<double>(e.size(dim)));
  if (name.text == "zeros") return Term::of(0);
  if (name.text == "ones") return Term::of(1);
  if (name.text == "training") return Term::of_truth(e.options.purpose.training());
  return unknown_name(e, frame, name);
}

Term group(Elaboration& e, Frame& frame, const ast::Group& group, Span span) {
  if (group.values.size() == 1) return expression(e, frame, *group.values.front());
  e.error("E0310", span, "several values stand where one is needed")
      .help("name them one by one: `a, b = f(x)` takes the results of a block");
  return Term::poison();
}

}  // namespace

Binding* find_name(Frame& frame, const std::string& name) {
  for (Frame* at = &frame; at != nullptr; at = at->outer)
    if (const auto found = at->names.find(name); found != at->names.end()) return &found->second;
  return nullptr;
}

Term expression(Elaboration& e, Frame& frame, const ast::Expr& expr) {
  e.build.span = expr.span;
  if (const auto* number = ast::as<ast::Number>(expr)) return Term::of(number->value);
  if (const auto* truth = ast::as<ast::Bool>(expr)) return Term::of_truth(truth->value);
  if (const auto* path = ast::as<ast::Path>(expr)) return named(e, frame, *path);
  if (const auto* inner = ast::as<ast::Group>(expr)) return group(e, frame, *inner, expr.span);
  if (ast::as<ast::Call>(expr) != nullptr) {
    const std::vector<Term> results = expressions(e, frame, expr);
    if (results.size() == 1) return results.front();
    e.error("E0310", expr.span, "this gives {} values where one is needed", results.size())
        .help("take them apart first: `a, b = ...`");
    return Term::poison();
  }
  if (const auto* index = ast::as<ast::Index>(expr)) return index_expression(e, frame, *index, expr.span);
  if (const auto* cast = ast::as<ast::Cast>(expr)) {
    const Term operand = expression(e, frame, *cast->value);
    const DimId dim = dim_named(e, *frame.dims, cast->index_of);
    return dim ? cast_to(e, operand, Type::i32, dim, expr.span) : Term::poison();
  }
  if (const auto* unary = ast::as<ast::Unary>(expr)) return unary_expression(e, frame, *unary, expr.span);
  if (const auto* binary = ast::as<ast::Binary>(expr)) return binary_expression(e, frame, *binary, expr.span);
  if (const auto* compare = ast::as<ast::Compare>(expr)) return compare_expression(e, frame, *compare, expr.span);
  if (const auto* logical = ast::as<ast::Logical>(expr)) return logical_expression(e, frame, *logical, expr.span);
  e.error("E0315", expr.span, "a text is no value")
      .help("quoted words are settings of the tool, as in `schedule: \"1f1b\"`");
  return Term::poison();
}

std::vector<Term> expressions(Elaboration& e, Frame& frame, const ast::Expr& expr) {
  const ast::Expr& bare = ast::without_parentheses(expr);
  e.build.span = bare.span;
  if (const auto* call = ast::as<ast::Call>(bare)) return call_expression(e, frame, *call, bare.span);
  return {expression(e, frame, expr)};
}

std::optional<double> constant(Elaboration& e, DimScope& scope, const ast::Expr& expr, const std::string& what) {
  Frame frame;
  frame.dims = &scope;
  frame.attributes = true;
  const Term term = expression(e, frame, expr);
  if (term.is_number()) return term.number;
  if (!term.poisoned())
    e.error("E0315", expr.span, "{} must be a number that is known now", what).here("this is {}", describe(e, term));
  return {};
}

}  // namespace mesh::elaboration
