#include "codegen/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "codegen/layout/cost.h"
#include "codegen/program/exposed.h"
#include "codegen/way_out.h"
#include "frontend/lint_levels.h"
#include "meshrt/generation.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

constexpr size_t most_priced = 6;  // rules: each takes a compilation

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

int64_t count_of(const std::vector<Diagnostic>& told, const std::string& code) {
  return std::ranges::count(told, code, &Diagnostic::code);
}

/// What comes of the alternatives of one diagnostic.
struct Tried {
  std::vector<Priced> priced;
  std::vector<std::string> rules;  // with which this is no longer wrong, whatever else is
};

class Trials {
 public:
  Trials(const CompileRequest& request, const SourceMap& sources, const DiagnosticSink& levels,
         const std::vector<Diagnostic>& told)
      : request_(request), sources_(sources), levels_(levels), told_(told) {}

  Tried all_of(const Diagnostic& one) {
    Tried tried;
    for (const Fix& alternative : one.alternatives) take(one, alternative, tried);
    std::ranges::stable_sort(tried.priced, {}, [](const Priced& of) { return of.cost.seconds; });
    return tried;
  }

 private:
  /// What comes of a rule in the place of one that is written.
  struct Trial {
    std::vector<Diagnostic> said;
    std::optional<StepCost> cost;  // unset: it does not compile, or too many were compiled before
  };

  /// A rule of several dims may contradict itself in more than one tensor: then it is written anew once more.
  void take(const Diagnostic& one, const Fix& alternative, Tried& tried) {
    const Span at = alternative.span;
    std::string rule = with_attributes(alternative.text, sources_.text(at));
    for (size_t turn = 0; turn < most_turns; ++turn) {
      const Trial& trial = of(at, rule);
      if (trial.cost) {
        const bool known = std::ranges::count(tried.priced, rule, &Priced::rule) > 0;
        if (!known) tried.priced.push_back({rule, *trial.cost});
        return;
      }
      if (count_of(trial.said, one.code) < count_of(told_, one.code)) return tried.rules.push_back(rule);
      if (!rewrite(rule, at, trial.said)) return;
    }
  }

  /// Each rule is tried once, whichever diagnostics propose it: whether there is such a layout, then what it costs.
  const Trial& of(Span at, const std::string& rule) {
    const auto [known, fresh] = trials_.try_emplace({at.file, at.begin, rule});
    Trial& trial = known->second;
    if (!fresh) return trial;
    const Change change{at, rule, rule, true};
    const auto compiled = [&](const CompileRequest& as) {
      DiagnosticSink found = with_levels_of(levels_);
      std::optional<Compiled> made = compiled_with(change, as, sources_, found);
      trial.said = found.diagnostics();
      return made;
    };
    CompileRequest resolved = request_;
    resolved.stop_after = "recognised";
    resolved.stop_entry = request_.generate ? meshrt::generate_entry : "train";
    resolved.search_seconds = 0;
    compiled(resolved);
    if (std::ranges::count(trial.said, Level::error, &Diagnostic::level) > 0 || priced_ == most_priced) return trial;
    ++priced_;
    if (const std::optional<Compiled> step = compiled(request_)) trial.cost = step_cost(step->program);
    return trial;
  }

  /// As the first of these proposes for a rule that has come to stand at `at`.
  static bool rewrite(std::string& rule, Span at, const std::vector<Diagnostic>& said) {
    for (const Diagnostic& one : said)
      for (const auto& [span, text] : one.alternatives) {
        if (span.file != at.file || span.begin < at.begin || span.end > at.begin + rule.size()) continue;
        const size_t begin = span.begin - at.begin;
        rule.replace(begin, span.size(), with_attributes(text, rule.substr(begin, span.size())));
        return true;
      }
    return false;
  }

  static constexpr size_t most_turns = 8;
  const CompileRequest& request_;
  const SourceMap& sources_;
  const DiagnosticSink& levels_;
  const std::vector<Diagnostic>& told_;
  std::map<std::tuple<FileId, uint32_t, std::string>, Trial> trials_;
  size_t priced_ = 0;
};

/// In place of what a diagnostic proposes without having tried it.
std::vector<std::string> helps_of(const Tried& tried) {
  std::vector<std::string> helps;
  for (const auto& [rule, cost] : tried.priced)
    helps.push_back(fmt::format("`{}`: a step takes {} and sends {}, a rank holds {}", rule, time_text(cost.seconds),
                                meshrt::bytes_text(cost.bytes), meshrt::bytes_text(cost.memory)));
  if (helps.empty())
    for (const std::string& rule : tried.rules) helps.push_back(fmt::format("`{}` would do here", rule));
  return helps;
}

}  // namespace

void price_alternatives(const CompileRequest& request, const SourceMap& sources, const DiagnosticSink& levels,
                        std::vector<Diagnostic>& told) {
  CompileRequest whole = request;
  whole.stop_after.clear();
  Trials trials(whole, sources, levels, told);
  std::vector<std::pair<Diagnostic*, std::vector<std::string>>> found;
  for (Diagnostic& one : told)
    if (!one.alternatives.empty()) found.emplace_back(&one, helps_of(trials.all_of(one)));
  for (auto& [one, helps] : found) one->helps = std::move(helps);
}

}  // namespace mesh
