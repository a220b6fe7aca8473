#include "codegen/graph/elaborate/minimize.h"

#include <algorithm>

#include "codegen/graph/elaborate/expressions.h"
#include "codegen/graph/elaborate/terms.h"
#include "codegen/layout/mesh.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

struct Setting {
  std::string_view name;
  double value;         // unless it is given
  bool per_parameter;   // a group may set it
  double least, below;  // the values that make sense
};

struct Optimizer {
  std::string_view name;
  std::vector<Setting> settings;
};

constexpr double any = 1e300;

const std::vector<Optimizer>& optimizers() {
  static const std::vector<Setting> adam = {{"beta1", 0.9, false, 0, 1},
                                            {"beta2", 0.999, false, 0, 1},
                                            {"epsilon", 1e-8, false, 0, any},
                                            {"weight_decay", 0, true, 0, any}};
  static const std::vector<Setting> adamw = {{"beta1", 0.9, false, 0, 1},
                                             {"beta2", 0.999, false, 0, 1},
                                             {"epsilon", 1e-8, false, 0, any},
                                             {"weight_decay", 0.01, true, 0, any}};
  static const std::vector<Setting> sgd = {
      {"momentum", 0, false, 0, any}, {"nesterov", 0, false, 0, any}, {"weight_decay", 0, true, 0, any}};
  static const std::vector<Optimizer> rows = {{"adam", adam}, {"adamw", adamw}, {"sgd", sgd}};
  return rows;
}

std::vector<std::string> names_of(const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  names.reserve(settings.size());
  for (const Setting& setting : settings) names.emplace_back(setting.name);
  return names;
}

/// A number or a truth value (as 1 or 0) that is known now.
std::optional<double> setting_value(Elaboration& e, DimScope& scope, const ast::Expr& expr, const std::string& name) {
  if (name == "nesterov") {
    if (const auto* truth = ast::as<ast::Bool>(ast::without_parentheses(expr))) return truth->value ? 1 : 0;
    e.error("E0503", expr.span, "`nesterov` must be `true` or `false`");
    return {};
  }
  return constant(e, scope, expr, "`" + name + "`");
}

bool in_range(Elaboration& e, const Setting& setting, double value, Span span) {
  if (value >= setting.least && value < setting.below) return true;
  const std::string upper = setting.below == any ? std::string() : fmt::format(" and below {}", setting.below);
  e.error("E0503", span, "`{}` must be at least {}{}, not {}", setting.name, setting.least, upper, value);
  return false;
}

// ---- rates

std::optional<RateOp> cosine_rate(Elaboration& e, DimScope& scope, const ast::Call& call, Span span) {
  std::vector<std::pair<std::string, double>> values = {{"peak", -1}, {"warmup", -1}, {"steps", 0}, {"floor", 0}};
  bool good = true;
  for (const ast::Argument& argument : call.arguments) {
    std::vector<std::string> names;
    std::pair<std::string, double>* target = nullptr;
    for (auto& value : values) {
      names.push_back(value.first);
      if (argument.name && argument.name->text == value.first) target = &value;
    }
    if (target == nullptr) {
      auto report = e.error("E0503", argument.span, "`cosine` takes {} by name", quoted(names));
      if (argument.name)
        if (const auto near = did_you_mean(argument.name->text, names)) report.here("did you mean `{}`?", *near);
      good = false;
      continue;
    }
    const auto value = constant(e, scope, *argument.value, "`" + argument.name->text + "`");
    good = good && value;
    target->second = value.value_or(0);
    if (value && *value < 0) {
      e.error("E0503", argument.value->span, "`{}` must not be negative", argument.name->text);
      good = false;
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    if (!good || values[i].second >= 0) continue;
    e.error("E0503", span, "`cosine` needs `{}:`", values[i].first)
        .help("`cosine(peak: 3e-4, warmup: 100)`; without `steps:` it ends with the run's `train.steps`");
    good = false;
  }
  if (good && values[2].second > 0 && values[1].second >= values[2].second) {
    e.error("E0503", span, "`cosine` warms up for {} of its {} steps", values[1].second, values[2].second);
    good = false;
  }
  if (!good) return {};
  return RateOp{"cosine", values};
}

std::optional<RateOp> rate_of(Elaboration& e, DimScope& scope, const ast::Expr& expr) {
  if (const auto* call = ast::as<ast::Call>(ast::without_parentheses(expr))) {
    const std::string name = call->callee.text();
    if (name == "cosine") return cosine_rate(e, scope, *call, expr.span);
    if (name == "inverse_sqrt" || name == "linear") {
      not_built(e, expr.span, "the schedule `" + name + "`", "`cosine(peak: 3e-4, warmup: 100)` or a constant rate");
      return {};
    }
    if (did_you_mean(name, {"cosine"})) {
      e.error("E0503", call->callee.span, "unknown schedule `{}`", name).here("did you mean `cosine`?");
      return {};
    }
  }
  const auto rate = constant(e, scope, expr, "`lr`");
  if (!rate) return {};
  if (*rate < 0) {
    e.error("E0503", expr.span, "`lr` must not be negative");
    return {};
  }
  return RateOp{"constant", {{"rate", *rate}}};
}

// ---- the optimizer and its arguments

bool read_optimizer(Elaboration& e, DimScope& scope, const ast::Call& call, Span span, const Optimizer& optimizer,
                    Objective& objective) {
  bool good = true, rate = false;
  for (const Setting& setting : optimizer.settings) objective.values[std::string(setting.name)] = setting.value;
  for (const ast::Argument& argument : call.arguments) {
    if (!argument.name) {
      e.error("E0503", argument.span, "the arguments of `{}` are given by name", optimizer.name).help("`lr: 3e-4`");
      good = false;
      continue;
    }
    const std::string& name = argument.name->text;
    if (name == "lr") {
      rate = true;
      const auto read = rate_of(e, scope, *argument.value);
      if (read) objective.rate = *read;
      good = good && read;
      continue;
    }
    const auto setting = std::find_if(optimizer.settings.begin(), optimizer.settings.end(),
                                      [&](const Setting& s) { return s.name == name; });
    if (setting == optimizer.settings.end() && name != "clip") {
      std::vector<std::string> names = names_of(optimizer.settings);
      names.insert(names.end(), {"lr", "clip"});
      std::sort(names.begin(), names.end());
      auto report = e.error("E0503", argument.name->span, "`{}` has no setting `{}`", optimizer.name, name);
      if (const auto near = did_you_mean(name, names)) report.here("did you mean `{}`?", *near);
      else report.help("its settings are " + quoted(names));
      good = false;
      continue;
    }
    const auto value = setting_value(e, scope, *argument.value, name);
    if (!value) {
      good = false;
    } else if (name == "clip") {
      if (*value <= 0) {
        e.error("E0503", argument.value->span, "`clip` must be above 0, not {}", *value);
        good = false;
      }
      objective.values["clip"] = *value;
    } else {
      good = in_range(e, *setting, *value, argument.value->span) && good;
      objective.values[name] = *value;
    }
  }
  if (!rate) {
    e.error("E0503", span, "`{}` needs a learning rate", optimizer.name)
        .help(fmt::format("`{}(lr: 3e-4)`", optimizer.name));
    good = false;
  }
  return good;
}

// ---- which parameters, and what their groups say

mesh::Glob glob_of(const ast::Glob& glob) {
  mesh::Glob result;
  for (const ast::Name& part : glob.parts) result.parts.push_back(part.text);
  return result;
}

std::vector<std::string> parameter_paths(const Elaboration& e, const Objective& objective) {
  std::vector<std::string> paths;
  paths.reserve(objective.parameters.size());
  for (const auto& parameter : objective.parameters) paths.push_back(e.graph.stored[parameter.stored.index].path);
  return paths;
}

/// Calls `apply` for each parameter that the glob matches; E0504 where it matches none.
template <class Apply>
void for_matches(Elaboration& e, Objective& objective, const ast::Glob& glob, Apply apply) {
  const mesh::Glob pattern = glob_of(glob);
  bool any_match = false;
  for (auto& parameter : objective.parameters) {
    if (!pattern.matches(e.graph.stored[parameter.stored.index].path)) continue;
    any_match = true;
    apply(parameter);
  }
  if (any_match) return;
  auto report = e.error("E0504", glob.span, "no parameter matches `{}`", glob.text());
  const auto paths = parameter_paths(e, objective);
  std::vector<std::string> last_parts;
  for (const std::string& path : paths) last_parts.push_back(path.substr(path.rfind('.') + 1));
  const auto near_last = did_you_mean(glob.parts.back().text, last_parts);
  if (const auto near = did_you_mean(glob.text(), paths)) {
    report.here("did you mean `{}`?", *near);
  } else if (near_last && *near_last != glob.parts.back().text) {
    report.label(glob.parts.back().span, fmt::format("did you mean `{}`?", *near_last));
  } else if (!paths.empty()) {
    std::vector<std::string> some(paths.begin(),
                                  paths.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(paths.size(), 8)));
    report.note("parameters of the model: " + quoted(some) + (some.size() < paths.size() ? ", ..." : ""));
  }
}

void read_groups(Elaboration& e, DimScope& scope, const ast::Minimize& statement, const Optimizer& optimizer,
                 Objective& objective) {
  std::map<std::pair<StoredId, std::string>, Span> set_by;
  const auto claim = [&](const Objective::Parameter& parameter, const std::string& key, const ast::Glob& glob) {
    const auto [first, fresh] = set_by.try_emplace({parameter.stored, key}, glob.span);
    if (fresh) return true;
    const std::string& path = e.graph.stored[parameter.stored.index].path;
    if (first->second != glob.span)
      e.error("E0505", glob.span, "two patterns set `{}` of `{}`", key, path)
          .here("this one matches it too")
          .label(first->second, "the first");
    return false;
  };
  for (const ast::ParameterGroup& group : statement.groups) {
    if (group.frozen) {
      for (const ast::Glob& glob : group.globs)
        for_matches(e, objective, glob, [&](Objective::Parameter& parameter) {
          if (claim(parameter, "frozen", glob)) parameter.frozen = true;
        });
      continue;
    }
    for (const ast::Attribute& attribute : group.attributes) {
      const std::string& key = attribute.key.text;
      const auto setting = std::find_if(optimizer.settings.begin(), optimizer.settings.end(),
                                        [&](const Setting& s) { return s.name == key; });
      if (setting == optimizer.settings.end() || !setting->per_parameter) {
        if (setting != optimizer.settings.end() || key == "lr") {
          not_built(e, attribute.key.span, "`" + key + "` for a group of parameters",
                    "a group may set `weight_decay`, or say `frozen`");
          continue;
        }
        auto report = e.error("E0503", attribute.key.span, "`{}` has no setting `{}`", optimizer.name, key);
        if (const auto near = did_you_mean(key, names_of(optimizer.settings))) report.here("did you mean `{}`?", *near);
        continue;
      }
      const auto value = setting_value(e, scope, *attribute.value, key);
      if (!value || !in_range(e, *setting, *value, attribute.value->span)) continue;
      for (const ast::Glob& glob : group.globs)
        for_matches(e, objective, glob, [&](Objective::Parameter& parameter) {
          if (claim(parameter, key, glob)) parameter.values[key] = *value;
        });
    }
  }
}

ValueId loss_value(Elaboration& e, Frame& frame, const ast::Minimize& statement) {
  ast::Expr name;
  name.node = ast::Path{{statement.loss}, statement.loss.span};
  name.span = statement.loss.span;
  const Term term = expression(e, frame, name);
  const ValueId loss = tensor_of(e, term, statement.loss.span);
  if (!loss) return {};
  const ValueType type = e.type(loss);
  if (term.is_tensor() && type.dims.empty() && is_float(type.element)) return loss;
  auto report = e.error("E0506", statement.loss.span, "the loss `{}` must be one float", statement.loss.text);
  report.here(describe(e, term));
  if (!type.dims.empty()) {
    std::string dims;
    for (DimId dim : type.dims) dims += (dims.empty() ? "" : ", ") + e.name(dim);
    report.help(fmt::format("reduce it: `mean[{}]({})`", dims, statement.loss.text));
  }
  return {};
}

}  // namespace

void minimize_statement(Elaboration& e, Frame& frame, const ast::Minimize& statement, Span span) {
  if (e.graph.objective) {
    e.error("E0507", span, "a second `minimize` in one model").label(e.graph.objective->span, "the first");
    return;
  }
  Objective objective;
  objective.span = span;
  objective.loss = loss_value(e, frame, statement);
  e.graph.metrics.insert(e.graph.metrics.begin(), {statement.loss.text, objective.loss, statement.loss.span});
  for (uint32_t i = 0; i < e.graph.stored.size(); ++i)
    if (e.graph.stored[i].kind == StoredKind::parameter) objective.parameters.push_back({StoredId{i}, {}, false});
  if (objective.parameters.empty())
    e.error("E0508", span, "the model has no parameters to minimise over")
        .help("`param w : real[...] = fan_in[...]` declares one");
  const auto* call = ast::as<ast::Call>(ast::without_parentheses(*statement.optimizer));
  const std::string name =
      call != nullptr ? call->callee.text() : std::string(e.sources.text(statement.optimizer->span));
  const auto optimizer =
      std::find_if(optimizers().begin(), optimizers().end(), [&](const Optimizer& row) { return row.name == name; });
  if (optimizer == optimizers().end()) {
    auto report = e.error("E0502", call != nullptr ? call->callee.span : statement.optimizer->span,
                          "unknown optimizer `{}`", name);
    if (const auto near = did_you_mean(name, {"adam", "adamw", "sgd"})) report.here("did you mean `{}`?", *near);
    else report.help("optimizers are `sgd`, `adam` and `adamw`");
    e.graph.objective = objective;
    return;
  }
  objective.optimizer = name;
  if (call == nullptr)
    e.error("E0503", statement.optimizer->span, "`{}` needs a learning rate", name)
        .help(fmt::format("`{}(lr: 3e-4)`", name));
  else read_optimizer(e, *frame.dims, *call, statement.optimizer->span, *optimizer, objective);
  read_groups(e, *frame.dims, statement, *optimizer, objective);
  if (!statement.over.empty()) {
    std::vector<StoredId> chosen;
    for (const ast::Glob& glob : statement.over)
      for_matches(e, objective, glob,
                  [&](const Objective::Parameter& parameter) { chosen.push_back(parameter.stored); });
    for (auto& parameter : objective.parameters)
      if (std::find(chosen.begin(), chosen.end(), parameter.stored) == chosen.end()) parameter.frozen = true;
  }
  for (auto& parameter : objective.parameters)
    for (const Setting& setting : optimizer->settings)
      parameter.values.try_emplace(std::string(setting.name), objective.values[std::string(setting.name)]);
  e.graph.objective = objective;
}

}  // namespace mesh::elaboration
