#include "codegen/alternatives.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/layout/cost.h"
#include "codegen/program/exposed.h"
#include "codegen/way_out.h"
#include "frontend/lint_levels.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

constexpr size_t most_diagnostics = 4;  // that are looked at: each takes a compilation for each of its alternatives

struct Priced {
  std::string rule;
  StepCost cost;
};

/// The rule, or each of the rules, with the attributes of that in whose place it stands.
std::string with_attributes(std::string rules, std::string_view old) {
  const size_t brace = old.find('{');
  if (brace == std::string_view::npos) return rules;
  const std::string attributes = fmt::format(" {}", old.substr(brace));
  for (size_t at = rules.find(';'); at != std::string::npos; at = rules.find(';', at + attributes.size() + 1))
    rules.insert(at, attributes);
  return rules + attributes;
}

std::vector<Priced> priced(const CompileRequest& request, const SourceMap& sources, const DiagnosticSink& levels,
                           const Diagnostic& one) {
  std::vector<Priced> all;
  for (const Fix& alternative : one.alternatives) {
    const std::string rule = with_attributes(alternative.text, sources.text(alternative.span));
    DiagnosticSink unheard = with_levels_of(levels);
    const Change change{alternative.span, rule, rule, true};
    if (const std::optional<Compiled> compiled = compiled_with(change, request, sources, unheard))
      all.push_back({rule, step_cost(compiled->sharded(), compiled->program)});
  }
  std::ranges::stable_sort(all, {}, [](const Priced& of) { return of.cost.seconds; });
  return all;
}

}  // namespace

void price_alternatives(const CompileRequest& request, const SourceMap& sources, const DiagnosticSink& levels,
                        std::vector<Diagnostic>& told) {
  CompileRequest whole = request;
  whole.stop_after.clear();
  size_t looked_at = 0;
  for (Diagnostic& one : told) {
    if (one.alternatives.empty() || ++looked_at > most_diagnostics) continue;
    const std::vector<Priced> found = priced(whole, sources, levels, one);
    if (found.empty()) continue;
    one.helps.clear();
    for (const auto& [rule, cost] : found)
      one.helps.push_back(fmt::format("`{}`: a step takes {} and sends {}, a rank holds {}", rule,
                                      time_text(cost.seconds), meshrt::bytes_text(cost.bytes),
                                      meshrt::bytes_text(cost.memory)));
  }
}

}  // namespace mesh
