#include "codegen/elaborate/minimize.h"

#include <algorithm>

#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/other_names.h"
#include "codegen/elaborate/rates.h"
#include "codegen/elaborate/terms.h"
#include "codegen/graph/glob.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

struct Setting {
  std::string_view name;
  double value;         // unless it is given
  double least, below;  // the values that make sense
  bool truth = false;   // true or false, as 1 and 0
};

struct Optimizer {
  std::string_view name;
  std::vector<Setting> settings;
};

constexpr double any = beyond_settings;

const std::vector<Optimizer>& optimizers() {
  const auto adam = [](double decay) {
    return std::vector<Setting>{{"beta1", 0.9, 0, 1},
                                {"beta2", 0.999, 0, 1},
                                {"epsilon", 1e-8, 0, any},
                                {"weight_decay", decay, 0, any},
                                {"bias_correction", 1, 0, any, true}};
  };
  static const std::vector<Optimizer> rows = {
      {"adafactor",
       {{"decay", 0.8, 0, 1},  // the second moments' decay at step t is 1 - t^-decay
        {"beta1", 0, 0, 1},
        {"epsilon", 1e-30, 0, any},
        {"smallest_scale", 1e-3, 0, any},
        {"threshold", 1, 0, any},
        {"scale_by_parameter", 1, 0, any, true},
        {"factored", 1, 0, any, true},
        {"smallest_factored", 128, 1, any}}},
      {"adam", adam(0)},
      {"adamw", adam(0.01)},
      {"lion", {{"beta1", 0.9, 0, 1}, {"beta2", 0.99, 0, 1}, {"weight_decay", 0, 0, any}}},
      {"rmsprop",
       {{"alpha", 0.99, 0, 1},
        {"epsilon", 1e-8, 0, any},
        {"momentum", 0, 0, any},
        {"centered", 0, 0, any, true},
        {"weight_decay", 0, 0, any}}},
      {"sgd", {{"momentum", 0, 0, any}, {"nesterov", 0, 0, any, true}, {"weight_decay", 0, 0, any}}},
  };
  return rows;
}

std::vector<std::string> names_of(const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  names.reserve(settings.size());
  for (const Setting& setting : settings) names.emplace_back(setting.name);
  return names;
}

/// What `name` may mean, of the settings that there are.
void propose_setting(DiagnosticBuilder& report, const std::string& name, const std::vector<std::string>& names) {
  if (const auto meant = setting_meant(name, names)) report.here("did you mean `{}`?", *meant);
  else report.help("its settings are " + quoted(names));
}

std::optional<double> setting_value(Elaboration& e, DimScope& scope, const ast::Expr& expr, const Setting& setting) {
  if (!setting.truth) return constant(e, scope, expr, fmt::format("`{}`", setting.name));
  if (const auto* truth = ast::as<ast::Bool>(ast::without_parentheses(expr))) return truth->value ? 1 : 0;
  e.error("E0503", expr.span, "`{}` must be `true` or `false`", setting.name);
  return {};
}

bool in_range(Elaboration& e, const Setting& setting, double value, Span span) {
  if (value >= setting.least && value < setting.below) return true;
  e.error("E0503", span, "`{}` must be at least {} and below {}, not {}", setting.name, setting.least, setting.below,
          value);
  return false;
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
      propose_setting(report, name, names);
      if (name == "betas" && std::ranges::count(names, "beta2") > 0) report.help("`beta1: 0.9, beta2: 0.999`");
      good = false;
      continue;
    }
    const auto value = name == "clip" ? constant(e, scope, *argument.value, "`clip`")
                                      : setting_value(e, scope, *argument.value, *setting);
    if (!value) {
      good = false;
    } else if (name == "clip") {
      if (*value <= 0 || *value >= any) {
        e.error("E0503", argument.value->span, "`clip` must be above 0 and below {}, not {}", any, *value);
        good = false;
      }
      objective.values["clip"] = *value;
    } else {
      good = in_range(e, *setting, *value, argument.value->span) && good;
      objective.values[name] = *value;
    }
  }
  if (!rate && optimizer.name == "adafactor") {  // 0.01, and 1 / sqrt(t) from step 10 000 on
    const double peak = objective.values.at("scale_by_parameter") != 0 ? 0.01 : 0.0005;
    objective.rate = {{{"inverse_sqrt", {{"peak", peak}, {"warmup", 0}, {"hold", 10'000}}}}};
  } else if (!rate && good) {
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
  if (any_match || e.lacks_parameters) return;
  auto report = e.error("E0504", glob.span, "no parameter matches `{}`", glob.text());
  const auto paths = parameter_paths(e, objective);
  std::vector<std::string> last_parts;
  last_parts.reserve(paths.size());
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
        for_matches(e, objective, glob, [&](const Objective::Parameter& parameter) {
          if (claim(parameter, "frozen", glob)) e.graph.stored[parameter.stored.index].frozen = true;
        });
      continue;
    }
    for (const ast::Attribute& attribute : group.attributes) {
      const std::string& key = attribute.key.text;
      if (key == "lr") {
        auto rate = rate_of(e, scope, *attribute.value);
        if (!rate) continue;
        for (Schedule& factor : rate->factors) factor.of_run = false;
        for (const ast::Glob& glob : group.globs)
          for_matches(e, objective, glob, [&](Objective::Parameter& parameter) {
            if (claim(parameter, key, glob)) parameter.rate = *rate;
          });
        continue;
      }
      const auto setting = std::find_if(optimizer.settings.begin(), optimizer.settings.end(),
                                        [&](const Setting& s) { return s.name == key; });
      if (setting == optimizer.settings.end()) {
        auto report = e.error("E0503", attribute.key.span, "`{}` has no setting `{}`", optimizer.name, key);
        std::vector<std::string> names = names_of(optimizer.settings);
        names.emplace_back("lr");
        if (key == "clip") report.here("all gradients are clipped together");
        else if (key != "frozen") propose_setting(report, key, names);
        else
          report.help(
              fmt::format("a group that is not trained is written `{} {{ frozen }}`", group.globs.front().text()));
        continue;
      }
      const auto value = setting_value(e, scope, *attribute.value, *setting);
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
  if (!is_float(type.element)) {
    report.note("it has no gradients: a loss changes by degrees, with the parameters");
  } else if (!type.dims.empty()) {
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
    if (e.graph.stored[i].kind == StoredKind::parameter) objective.parameters.push_back({StoredId{i}, {}, {}});
  if (objective.parameters.empty() && !e.lacks_parameters)
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
    std::vector<std::string> names;
    for (const Optimizer& row : optimizers()) names.emplace_back(row.name);
    if (const auto near = did_you_mean(name, names)) report.here("did you mean `{}`?", *near);
    else report.help("optimizers are " + quoted(names));
    e.graph.objective = objective;
    return;
  }
  objective.optimizer = name;
  if (call == nullptr)
    e.error("E0503", statement.optimizer->span, "`{}` needs {}", name,
            name == "adafactor" ? "parentheses" : "a learning rate")
        .help(name == "adafactor" ? "`adafactor()`" : fmt::format("`{}(lr: 3e-4)`", name));
  else read_optimizer(e, *frame.dims, *call, statement.optimizer->span, *optimizer, objective);
  read_groups(e, *frame.dims, statement, *optimizer, objective);
  if (!statement.over.empty()) {
    std::vector<StoredId> chosen;
    for (const ast::Glob& glob : statement.over)
      for_matches(e, objective, glob,
                  [&](const Objective::Parameter& parameter) { chosen.push_back(parameter.stored); });
    for (const auto& parameter : objective.parameters)
      if (std::find(chosen.begin(), chosen.end(), parameter.stored) == chosen.end())
        e.graph.stored[parameter.stored.index].frozen = true;
  }
  for (auto& parameter : objective.parameters)
    for (const Setting& setting : optimizer->settings)
      parameter.values.try_emplace(std::string(setting.name), objective.values[std::string(setting.name)]);
  e.graph.objective = objective;
}

}  // namespace mesh::elaboration
