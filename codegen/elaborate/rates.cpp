#include "codegen/elaborate/rates.h"

#include <algorithm>
#include <cmath>

#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/terms.h"
#include "frontend/lint_levels.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

struct Argument {
  std::string name;
  std::optional<double> otherwise;  // unset: must be given
};

struct Row {
  std::string name;
  std::vector<Argument> arguments;
  std::string example;
};

const std::vector<Row>& schedules() {
  static const std::vector<Row> rows = {
      {"constant", {{"rate", {}}, {"warmup", 0}}, "`constant(rate: 3e-4, warmup: 100)`"},
      {"cosine",
       {{"peak", {}}, {"warmup", 0}, {"steps", 0}, {"floor", 0}},
       "`cosine(peak: 3e-4, warmup: 100)`; without `steps:` it ends with the run's `train.steps`"},
      {"inverse_sqrt",
       {{"peak", {}}, {"warmup", 0}, {"hold", 0}},
       "`inverse_sqrt(peak: 1e-3, warmup: 4000)` rises first, as fairseq's does; "
       "`inverse_sqrt(peak: 0.01, hold: 10_000)` stays at its peak first, as T5's does"},
      {"linear",
       {{"peak", {}}, {"warmup", 0}, {"steps", 0}, {"floor", 0}},
       "`linear(peak: 3e-4, warmup: 100)`; without `steps:` it ends with the run's `train.steps`"},
      {"step",
       {{"peak", {}}, {"every", {}}, {"factor", 0.1}, {"times", 0}, {"warmup", 0}},
       "`step(peak: 0.1, every: 3000, factor: 0.1)` falls to a tenth after each 3000 steps, with `times: 1` after the "
       "first 3000 alone"},
  };
  return rows;
}

const Row* schedule_named(const std::string& name) {
  for (const Row& row : schedules())
    if (row.name == name) return &row;
  return nullptr;
}

double& value_of(Schedule& schedule, const std::string& name) {
  for (auto& [known, value] : schedule.values)
    if (known == name) return value;
  internal_error("schedule " + schedule.name + " has no " + name);
}

/// The arguments of the call, by name and in the row's order.
std::optional<Schedule> read_arguments(Elaboration& e, DimScope& scope, const Row& row, const ast::Call& call,
                                       Span span) {
  Schedule schedule{row.name, {}};
  std::vector<std::string> names, missing;
  for (const Argument& argument : row.arguments) {
    schedule.values.emplace_back(argument.name, argument.otherwise.value_or(0));
    names.push_back(argument.name);
    if (!argument.otherwise) missing.push_back(argument.name);
  }
  bool good = true;
  for (const ast::Argument& argument : call.arguments) {
    if (!argument.name || std::find(names.begin(), names.end(), argument.name->text) == names.end()) {
      auto report = e.error("E0503", argument.span, "`{}` takes {} by name", row.name, quoted(names));
      if (argument.name)
        if (const auto near = did_you_mean(argument.name->text, names)) report.here("did you mean `{}`?", *near);
      good = false;
      continue;
    }
    std::erase(missing, argument.name->text);
    const auto value = constant(e, scope, *argument.value, "`" + argument.name->text + "`");
    good = good && value;
    value_of(schedule, argument.name->text) = value.value_or(0);
    if (!value || *value >= 0) continue;
    e.error("E0503", argument.value->span, "`{}` must not be negative", argument.name->text);
    good = false;
  }
  for (const std::string& name : missing) {
    if (!good) break;
    e.error("E0503", span, "`{}` needs `{}:`", row.name, name).help(row.example);
    good = false;
  }
  if (!good) return {};
  return schedule;
}

bool makes_sense(Elaboration& e, Schedule& schedule, const Row& row, Span span) {
  if (schedule.name == "cosine" || schedule.name == "linear") {
    const double warmup = value_of(schedule, "warmup"), steps = value_of(schedule, "steps");
    if (steps == 0 || warmup < steps) return true;
    e.error("E0503", span, "`{}` warms up for {} of its {} steps", schedule.name, warmup, steps);
    return false;
  }
  if (schedule.name == "step") {
    const auto whole = [&](const char* name, double least) {
      const double value = value_of(schedule, name);
      return value >= least && value == std::floor(value);
    };
    if (whole("every", 1) && whole("times", 0)) return true;
    e.error("E0503", span, "`every:` and `times:` of `step` count steps: `every:` is a whole number from 1")
        .help(row.example);
    return false;
  }
  if (schedule.name != "inverse_sqrt") return true;
  const double warmup = value_of(schedule, "warmup"), hold = value_of(schedule, "hold");
  if ((warmup > 0) != (hold > 0)) return true;
  if (warmup > 0) e.error("E0503", span, "`inverse_sqrt` takes `warmup:` or `hold:`, not both").help(row.example);
  else e.error("E0503", span, "`inverse_sqrt` falls from a step that `warmup:` or `hold:` says").help(row.example);
  return false;
}

std::optional<Schedule> schedule_of(Elaboration& e, DimScope& scope, const Row& row, const ast::Call& call, Span span) {
  auto schedule = read_arguments(e, scope, row, call, span);
  if (!schedule || !makes_sense(e, *schedule, row, span)) return {};
  return schedule;
}

/// Whether a call of that name is one where no schedule is looked for.
bool means_something(const Elaboration& e, const std::string& name) {
  return !functions_named(name).empty() || e.declared.blocks.contains(name) || element_named(e, name).has_value();
}

/// A factor that is no schedule. Where it computes with values, cures of their types would lead to no rate: these are
/// not told.
std::optional<double> number_of(Elaboration& e, DimScope& scope, const ast::Expr& factor) {
  DiagnosticSink* const sink = e.sink;
  DiagnosticSink found = with_levels_of(*sink);
  e.sink = &found;
  const std::optional<double> number = constant(e, scope, factor, "`lr`");
  e.sink = sink;
  const auto is_of_a_value = [](const Diagnostic& one) { return one.code == "E0309" || one.code == "E0315"; };
  if (!number && std::ranges::any_of(found.diagnostics(), is_of_a_value)) {
    auto report =
        e.error("E0503", factor.span, "`lr` is a number that is known now, a schedule, or a product of these");
    if (ast::as<ast::Bool>(factor) == nullptr)
      report.help(
          "all turns of a `repeat` train with one rate: those with another one are a second `repeat`, whose "
          "parameters have a group of their own");
    return {};
  }
  for (Diagnostic& one : found.diagnostics()) sink->add(std::move(one));
  return number;
}

struct Factor {
  const ast::Expr* expr;
  bool divides;
};

/// The factors of a product, from left to right, and what it is divided by.
void flatten(const ast::Expr& expr, bool divides, std::vector<Factor>& factors) {
  const ast::Expr& bare = ast::without_parentheses(expr);
  const auto* product = ast::as<ast::Binary>(bare);
  if (product == nullptr || (product->op != ast::BinaryOp::multiply && product->op != ast::BinaryOp::divide)) {
    factors.push_back({&bare, divides});
    return;
  }
  flatten(*product->left, divides, factors);
  flatten(*product->right, divides != (product->op == ast::BinaryOp::divide), factors);
}

/// A schedule that something else than a product is made of: `1 + cosine(...)`.
const ast::Call* schedule_within(const ast::Expr& expr) {
  const ast::Expr& bare = ast::without_parentheses(expr);
  if (const auto* call = ast::as<ast::Call>(bare)) return schedule_named(call->callee.text()) ? call : nullptr;
  if (const auto* unary = ast::as<ast::Unary>(bare)) return schedule_within(*unary->operand);
  const auto* binary = ast::as<ast::Binary>(bare);
  if (binary == nullptr) return nullptr;
  const ast::Call* left = schedule_within(*binary->left);
  return left != nullptr ? left : schedule_within(*binary->right);
}

}  // namespace

std::optional<RateOp> rate_of(Elaboration& e, DimScope& scope, const ast::Expr& expr) {
  std::vector<Factor> factors;
  flatten(expr, false, factors);
  RateOp rate;
  double number = 1;
  bool good = true, numbers = false;
  for (const auto& [factor, divides] : factors) {
    const auto* call = ast::as<ast::Call>(*factor);
    if (const ast::Call* inner = schedule_within(*factor); inner != nullptr && (inner != call || divides)) {
      e.error("E0503", factor->span, "a schedule is a factor of `lr`, and nothing else is made of it")
          .help(fmt::format("write `{}(...) * 0.5`: schedules and numbers multiply", inner->callee.text()));
      good = false;
      continue;
    }
    if (call != nullptr) {
      const std::string name = call->callee.text();
      if (const Row* row = schedule_named(name)) {
        const auto schedule = schedule_of(e, scope, *row, *call, factor->span);
        if (schedule) rate.factors.push_back(*schedule);
        good = good && schedule;
        continue;
      }
      std::vector<std::string> names;
      for (const Row& row : schedules()) names.push_back(row.name);
      const auto near = did_you_mean(name, names);
      if (near || !means_something(e, name)) {
        auto report = e.error("E0503", call->callee.span, "unknown schedule `{}`", name);
        if (near) report.here("did you mean `{}`?", *near);
        else report.help(fmt::format("schedules are {}; rates multiply", quoted(names)));
        good = false;
        continue;
      }
    }
    const auto value = number_of(e, scope, *factor);
    good = good && value;
    number = divides ? number / value.value_or(1) : number * value.value_or(0);
    numbers = true;
  }
  if (!good) return {};
  if (!(number >= 0 && number < beyond_settings)) {
    if (number < 0) e.error("E0503", expr.span, "`lr` must not be negative");
    else e.error("E0503", expr.span, "`lr` must be at least 0 and below {}, not {}", beyond_settings, number);
    return {};
  }
  if (numbers) rate.factors.push_back({"constant", {{"rate", number}, {"warmup", 0}}});
  for (size_t i = 1; i < rate.factors.size(); ++i) rate.factors[i].of_run = false;
  return rate;
}

}  // namespace mesh::elaboration
