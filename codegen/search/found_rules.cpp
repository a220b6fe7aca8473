#include "codegen/search/found_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace mesh {
namespace {

ast::Product product(const std::vector<std::string>& words, Span at) {
  ast::Product made{{}, at};
  for (const std::string& word : words) made.names.push_back({word, at});
  return made;
}

/// A number, or a text between quotes.
ast::ExprPtr expression(const std::string& text, Span at) {
  auto made = std::make_unique<ast::Expr>();
  made->span = at;
  if (text.starts_with('"')) made->node = ast::String{text.substr(1, text.size() - 2)};
  else made->node = ast::Number{text, std::strtod(text.c_str(), nullptr), at};
  return made;
}

}  // namespace

std::string FoundRule::dim_text() const { return fmt::format("{}", fmt::join(dims, " * ")); }

std::string FoundRule::target_text() const {
  std::string text = axes.empty() ? "none" : fmt::format("{}", fmt::join(axes, " * "));
  if (!unless.empty()) text += fmt::format(" unless {}", fmt::join(unless, ", "));
  if (attributes.empty()) return text;
  std::vector<std::string> all;
  for (const auto& [key, value] : attributes) all.push_back(fmt::format("{}: {}", key, value));
  return text + fmt::format(" {{ {} }}", fmt::join(all, ", "));
}

std::vector<FoundLine> lines_of(const FoundRules& rules) {
  struct Group {
    std::string scope, target;
    std::vector<size_t> rules;
  };
  std::vector<Group> groups;
  for (size_t i = 0; i < rules.size(); ++i) {
    const std::string target = rules[i].target_text();
    const auto same = std::ranges::find_if(
        groups, [&](const Group& group) { return group.scope == rules[i].scope && group.target == target; });
    if (same == groups.end()) groups.push_back({rules[i].scope, target, {i}});
    else same->rules.push_back(i);
  }
  std::ranges::stable_sort(groups, {}, [](const Group& group) { return !group.scope.empty(); });
  std::vector<FoundLine> lines;
  for (Group& group : groups) {
    std::vector<std::string> dims;
    for (const size_t rule : group.rules) dims.push_back(rules[rule].dim_text());
    std::string text = fmt::format("{} -> {}", fmt::join(dims, ", "), group.target);
    if (!group.scope.empty()) text = fmt::format("{} {{ {} }}", group.scope, text);
    lines.push_back({std::move(text), std::move(group.rules)});
  }
  return lines;
}

ast::Rules to_ast(const FoundRules& rules, Span at) {
  ast::Rules made;
  for (const FoundRule& rule : rules) {
    ast::Place place;
    place.dims.push_back(product(rule.dims, at));
    place.target = {rule.axes.empty(), product(rule.axes, at), at};
    for (const std::string& dim : rule.unless) place.unless.push_back({dim, at});
    for (const auto& [key, value] : rule.attributes) place.attributes.push_back({{key, at}, expression(value, at), at});
    ast::Rule one{std::move(place), at};
    if (!rule.scope.empty()) {
      ast::Scope scope{{rule.scope, at}, {}};
      scope.rules.push_back(std::move(one));
      one = {std::move(scope), at};
    }
    made.push_back(std::move(one));
    at = {at.file, at.begin + 1, at.begin + 1};
  }
  return made;
}

}  // namespace mesh
