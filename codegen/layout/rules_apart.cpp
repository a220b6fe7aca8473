#include "codegen/layout/rules_apart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/graph/print_graph.h"

namespace mesh {
namespace {

std::string product(const Graph& graph, const Rule& rule) { return dims_text(graph, rule.dims, " * "); }

/// "kv, ffn -> model unless seq": of what a rule lists, this; empty where that is nothing.
std::string listing(const Graph& graph, const Rule& rule, const std::vector<std::string>& listed,
                    const std::vector<DimId>& unless) {
  if (listed.empty()) return "";
  return fmt::format("{} -> {}{}{}", fmt::join(listed, ", "), rule.written, unless.empty() ? "" : " unless ",
                     dims_text(graph, unless));
}

std::string both(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + "; " + second;
}

std::vector<std::string> without(const Graph& graph, const Rule& rule) {
  std::vector<std::string> rest = rule.listed;
  std::erase(rest, product(graph, rule));
  return rest;
}

/// Where another rule splits a value, this one leaves it: of a tensor alone, by none; else where it has a dim of that.
std::string standing_back(const Graph& graph, const Rule& rule, const Rule& other) {
  const std::string rest = listing(graph, rule, without(graph, rule), rule.unless);
  if (rule.pin) return both(rest, product(graph, rule) + " -> none");
  std::vector<DimId> unless = rule.unless;
  unless.push_back(other.dims.front());
  return both(rest, listing(graph, rule, {product(graph, rule)}, unless));
}

bool lie_apart_somewhere(const Graph& graph, const Rule& rule, const Rule& other) {
  return std::ranges::any_of(graph.values, [&](const Value& value) {
    return has(value.type.dims, rule.dims.front()) && !has(value.type.dims, other.dims.front());
  });
}

/// Of two dims that one rule lists.
std::vector<std::string> of_one_rule(const Graph& graph, const std::vector<DimId>& dims, const Rule& first,
                                     const Rule& second) {
  std::vector<std::string> all{listing(graph, first, without(graph, second), first.unless),
                               listing(graph, first, without(graph, first), first.unless)};
  std::vector<DimId> merged = first.dims;
  merged.insert(merged.end(), second.dims.begin(), second.dims.end());
  if (std::ranges::search(dims, merged).begin() != dims.end()) {
    std::vector<std::string> listed = first.listed;
    std::ranges::replace(listed, product(graph, first), dims_text(graph, merged, " * "));
    std::erase(listed, product(graph, second));
    all.push_back(listing(graph, first, listed, first.unless));
  }
  if (first.pin) return all;
  for (const auto& [rule, other] : {std::pair(&second, &first), std::pair(&first, &second)})
    if (lie_apart_somewhere(graph, *rule, *other)) all.push_back(standing_back(graph, *rule, *other));
  return all;
}

}  // namespace

std::vector<RewrittenRule> rules_apart(const Graph& graph, const std::vector<DimId>& dims, const Rule& first,
                                       const Rule& second) {
  if (first.span != second.span)
    return {{second.span, standing_back(graph, second, first)}, {first.span, standing_back(graph, first, second)}};
  std::vector<RewrittenRule> all;
  for (std::string& text : of_one_rule(graph, dims, first, second)) all.push_back({first.span, std::move(text)});
  return all;
}

}  // namespace mesh
