#include "codegen/elaborate/initial.h"

#include <algorithm>
#include <cmath>

#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/items.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

using meshrt::Initial;

/// `fan_in[d..]`: std 1/sqrt(product of sizes); `he_normal[d..]`: sqrt(2/product).
std::optional<Initial> scaled_normal(Elaboration& e, DimScope& scope, const ast::Index& index,
                                     const std::string& name) {
  Frame frame;
  frame.dims = &scope;
  const auto dims = listed_dims(e, frame, index.items, "`" + name + "`");
  if (!dims) return {};
  double product = 1;
  for (DimId dim : *dims) product *= static_cast<double>(e.size(dim));
  return Initial{Initial::Kind::normal, 0, std::sqrt((name == "he_normal" ? 2 : 1) / product)};
}

struct Option {
  const char* name;
  std::optional<double> value;  // unset: must be given
};

/// Whether all arguments have names; proposes them where none has: `normal(0, 0.1)`, or `normal(0.1)`, its last.
bool named(Elaboration& e, const ast::Call& call, const std::vector<std::string>& names) {
  const auto& given = call.arguments;
  const auto first = std::find_if(given.begin(), given.end(), [](const ast::Argument& one) { return !one.name; });
  if (first == given.end()) return true;
  auto report = e.error("E0318", cover(first->span, given.back().span), "`{}` takes {} by name", call.callee.text(),
                        quoted(names));
  const bool none =
      std::none_of(given.begin(), given.end(), [](const ast::Argument& one) { return one.name.has_value(); });
  if (!none || given.size() > names.size()) return false;
  std::string written;
  for (size_t i = 0; i < given.size(); ++i)
    written += fmt::format("{}{}: {}", i == 0 ? "" : ", ", names[names.size() - given.size() + i],
                           e.sources.text(given[i].span));
  report.help(fmt::format("`{}({})`", call.callee.text(), written))
      .fix(cover(given.front().span, given.back().span), written);
  return false;
}

/// The named arguments of `normal` and its like, in the order of `options`.
bool read_options(Elaboration& e, DimScope& scope, const ast::Call& call, std::vector<Option>& options, Span span) {
  std::vector<std::string> names;
  names.reserve(options.size());
  for (const Option& option : options) names.emplace_back(option.name);
  if (!named(e, call, names)) return false;
  bool good = true;
  for (const ast::Argument& argument : call.arguments) {
    Option* option = nullptr;
    for (Option& known : options)
      if (argument.name->text == known.name) option = &known;
    if (option == nullptr) {
      auto report = e.error("E0318", argument.span, "`{}` takes {} by name", call.callee.text(), quoted(names));
      if (const auto near = did_you_mean(argument.name->text, names)) report.here("did you mean `{}`?", *near);
      good = false;
      continue;
    }
    const auto value = constant(e, scope, *argument.value, "`" + argument.name->text + "`");
    good = good && value;
    option->value = value.value_or(0);
  }
  for (const Option& option : options) {
    if (option.value) continue;
    e.error("E0318", span, "`{}` needs `{}:`", call.callee.text(), option.name);
    good = false;
  }
  return good;
}

std::optional<Initial> drawn(Elaboration& e, DimScope& scope, const ast::Call& call, Span span) {
  const std::string name = call.callee.text();
  const bool uniform = name == "uniform";
  std::vector<Option> options =
      uniform ? std::vector<Option>{{"low", {}}, {"high", {}}} : std::vector<Option>{{"mean", 0}, {"std", 1}};
  if (!read_options(e, scope, call, options, span)) return {};
  const double a = *options[0].value, b = *options[1].value;
  if (uniform ? a >= b : b < 0) {
    if (uniform) e.error("E0318", span, "`uniform` needs low < high, not {} and {}", a, b);
    else e.error("E0318", span, "`std` must not be negative: {}", b);
    return {};
  }
  const auto kind =
      uniform ? Initial::Kind::uniform : (name == "normal" ? Initial::Kind::normal : Initial::Kind::truncated_normal);
  return Initial{kind, a, b};
}

const std::vector<std::string>& initial_names() {
  static const std::vector<std::string> names = {"fan_in",           "he_normal", "normal", "ones",
                                                 "truncated_normal", "uniform",   "zeros"};
  return names;
}

}  // namespace

bool is_computed(const Elaboration& e, const std::string& path, const ast::Expr& expr) {
  const auto any = [&](const ast::ExprPtr& inner) { return inner != nullptr && is_computed(e, path, *inner); };
  if (const auto* name = ast::as<ast::Path>(expr)) {
    const std::string text = name->text();
    if (e.tables.stored.contains(join(path, text))) return true;
    return !e.constants.contains(text) && text != "training" && !did_you_mean(text, initial_names());
  }
  if (const auto* index = ast::as<ast::Index>(expr)) {
    const auto* of = ast::as<ast::Path>(*index->value);
    const std::string text = of == nullptr ? "" : of->text();
    return text != "size" && !std::ranges::count(initial_names(), text);
  }
  if (const auto* call = ast::as<ast::Call>(expr)) {
    const std::string text = call->callee.text();
    if (std::ranges::count(initial_names(), text) > 0) return false;
    return !call->items.empty() || e.declared.blocks.contains(text) || text.starts_with("random_") ||
           std::ranges::any_of(call->arguments, [&](const ast::Argument& one) { return any(one.value); });
  }
  if (const auto* cast = ast::as<ast::Cast>(expr)) return any(cast->value);
  if (const auto* unary = ast::as<ast::Unary>(expr)) return any(unary->operand);
  if (const auto* binary = ast::as<ast::Binary>(expr)) return any(binary->left) || any(binary->right);
  if (const auto* compare = ast::as<ast::Compare>(expr)) return any(compare->left) || any(compare->right);
  if (const auto* logical = ast::as<ast::Logical>(expr)) return any(logical->left) || any(logical->right);
  const auto* group = ast::as<ast::Group>(expr);
  return group != nullptr && std::ranges::any_of(group->values, any);
}

void report_unknown(Elaboration& e, Span span, const std::string& name) {
  auto report = e.error("E0318", span, "unknown initial value `{}`", name);
  if (const auto near = did_you_mean(name, initial_names())) report.here("did you mean `{}`?", *near);
  else report.help("initial values are " + quoted(initial_names()) + ", or a number");
}

std::optional<Initial> initial_value(Elaboration& e, DimScope& scope, const ast::Expr& expr) {
  if (const auto* index = ast::as<ast::Index>(expr)) {
    if (const auto* path = ast::as<ast::Path>(*index->value)) {
      const std::string name = path->text();
      if (name == "fan_in" || name == "he_normal") return scaled_normal(e, scope, *index, name);
      if (name != "size") {
        report_unknown(e, path->span, name);
        return {};
      }
    }
  }
  if (const auto* call = ast::as<ast::Call>(expr)) {
    const std::string name = call->callee.text();
    if (name == "normal" || name == "truncated_normal" || name == "uniform") {
      if (call->items.empty()) return drawn(e, scope, *call, expr.span);
      e.error("E0318", expr.span, "`{}` takes no dims in brackets", name);
      return {};
    }
    if (name == "fan_in" || name == "he_normal") {
      e.error("E0318", expr.span, "`{}` names its fan-in dims in brackets", name).help(fmt::format("`{}[dim]`", name));
      return {};
    }
    if (functions_named(name).empty()) {
      report_unknown(e, call->callee.span, name);
      return {};
    }
  }
  if (const auto* path = ast::as<ast::Path>(expr)) {
    const std::string name = path->text();
    if (name == "normal" || name == "truncated_normal" || name == "uniform") {
      e.error("E0318", expr.span, "`{}` is drawn with numbers in parentheses", name)
          .help(name == "uniform" ? "`uniform(low: -0.1, high: 0.1)`" : fmt::format("`{}(std: 0.02)`", name));
      return {};
    }
    if (name == "zeros") return Initial{Initial::Kind::zeros, 0, 0};
    if (name == "ones") return Initial{Initial::Kind::ones, 1, 0};
    if (name == "fan_in" || name == "he_normal") {
      e.error("E0318", expr.span, "`{}` names its fan-in dims in brackets", name).help(fmt::format("`{}[dim]`", name));
      return {};
    }
    if (e.constants.count(name) == 0 && !path->parts.empty()) {
      if (did_you_mean(name, initial_names())) {
        report_unknown(e, path->span, name);
        return {};
      }
    }
  }
  if (const auto* truth = ast::as<ast::Bool>(ast::without_parentheses(expr)))
    return Initial{Initial::Kind::constant, truth->value ? 1.0 : 0.0, 0};
  const auto number = constant(e, scope, expr, "an initial value");
  if (!number) return {};
  return Initial{Initial::Kind::constant, *number, 0};
}

}  // namespace mesh::elaboration
