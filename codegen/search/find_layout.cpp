#include "codegen/search/find_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/elaborate/declarations.h"
#include "codegen/layout/cost.h"
#include "codegen/search/find_rules.h"
#include "frontend/format/format.h"
#include "frontend/imports.h"
#include "frontend/print_ast.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

constexpr double work_of_a_second = 0.2e6;  // steps (ReshardPlanner::work), on a core of today

/// What the step would be without a line.
std::string cost_without(const Outcome* other, const Outcome& best, std::optional<int64_t> memory) {
  if (other == nullptr) return "without it there is no such program";
  if (memory && other->memory > *memory)
    return fmt::format("without it a rank holds {}", meshrt::bytes_text(other->memory));
  if (time_text(other->seconds) != time_text(best.seconds))
    return fmt::format("without it a step takes {}", time_text(other->seconds));
  if (other->bytes > best.bytes) return fmt::format("without it a step sends {}", meshrt::bytes_text(other->bytes));
  return fmt::format("without it a rank holds {}", meshrt::bytes_text(other->memory));
}

class LayoutWriter {
 public:
  LayoutWriter(const SearchRequest& request, const Layout& written, Trials& trials)
      : request_(request), written_(written), trials_(trials) {}

  FoundLayout write(const FoundSet& set) const {
    FoundLayout found{written_.name, {}, {}, set.outcome.seconds, trials_.tried(), set.proved};
    for (const FoundLine& line : lines_of(set.rules)) {
      FoundRules others = set.rules;
      for (size_t i = line.rules.size(); i-- > 0;)
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(line.rules[i]));
      found.lines.push_back({line.text, cost_without(trials_.outcome(others), set.outcome, request_.memory)});
    }
    if (const std::vector<std::string> idle = idle_axes(set.rules); !idle.empty())
      found.lines.push_back(
          {fmt::format("replicate over {}", fmt::join(idle, ", ")), "no rule over it that was tried helps"});
    found.text = text_of(found, set);
    return found;
  }

 private:
  std::vector<std::string> idle_axes(const FoundRules& rules) const {
    std::vector<std::string> idle;
    for (size_t i = 0; i < written_.mesh.axes.size(); ++i) {
      const MeshAxis& axis = written_.mesh.axes[i];
      const auto id = static_cast<AxisId>(i);
      const bool used = std::ranges::any_of(
                            rules, [&](const FoundRule& one) { return std::ranges::count(one.axes, axis.name) > 0; }) ||
                        std::ranges::any_of(written_.rules, [&](const Rule& one) { return contains(one.axes, id); });
      if (axis.size > 1 && !used && !contains(written_.replicated, id)) idle.push_back(axis.name);
    }
    return idle;
  }

  /// The layout as a file of its own would have it, in the look of `meshc fmt`.
  std::string text_of(const FoundLayout& found, const FoundSet& set) const {
    std::string text =
        fmt::format("// a step takes {}, sends {}, a rank holds {}; {}\n", time_text(set.outcome.seconds),
                    meshrt::bytes_text(set.outcome.bytes), meshrt::bytes_text(set.outcome.memory), how_sure(found));
    text += fmt::format("layout {} on {} {{\n", written_.name, written_.mesh.name);
    DiagnosticSink unheard;
    const Declarations declared = declarations_of(request_.program, unheard);
    if (const ast::Layout* layout = declared.layout(written_.name))
      for (const ast::Rule& rule : layout->rules)
        if (!std::holds_alternative<ast::Auto>(rule.node)) text += print(rule, 2);
    for (const FoundLayout::Line& line : found.lines) text += fmt::format("  {} // {}\n", line.text, line.cost);
    text += "}\n";
    SourceMap sources;
    return format_text(sources.add("found", text), sources, unheard).value_or(text);
  }

  const SearchRequest& request_;
  const Layout& written_;
  Trials& trials_;
};

/// The name under which messages show what was found; the same text has the same name.
std::string name_of_source(const std::string& layout, const std::string& text, const SourceMap& sources) {
  for (int number = 1;; ++number) {
    const std::string name = fmt::format("layout {}, found{}", layout, number == 1 ? "" : fmt::format(" ({})", number));
    const std::optional<FileId> known = sources.find(name);
    if (!known || sources.text(*known) == text) return name;
  }
}

/// Sizes in as many digits as tell them apart.
std::pair<std::string, std::string> texts_apart(int64_t one, int64_t other) {
  const std::string text = meshrt::bytes_text(one), beside = meshrt::bytes_text(other);
  if (text != beside) return {text, beside};
  return {meshrt::grouped(one) + " B", meshrt::grouped(other) + " B"};
}

void report_memory(const SearchRequest& request, const Layout& written, const FoundSet& least, const FoundLayout& found,
                   DiagnosticSink& sink) {
  auto report =
      sink.error("E0425", written.automatic, "no rules that were tried leave a rank the memory that it needs");
  const auto [there, needed] = texts_apart(*request.memory, least.outcome.memory);
  report.here("{} a rank, and the least is {}", there, needed);
  std::vector<std::string> rules;
  for (const FoundLayout::Line& line : found.lines) rules.push_back("`" + line.text + "`");
  report.note(rules.empty() ? "that is without a rule" : fmt::format("with {}", fmt::join(rules, ", ")));
  constexpr int64_t mib = int64_t{1} << 20;
  report.help(fmt::format("give it more ranks or a smaller batch{}; with these rules `--memory {}MiB` would do",
                          found.proved ? "" : ", or have `meshc layout` search on with more `--seconds`",
                          (least.outcome.memory + mib - 1) / mib));
}

}  // namespace

std::string how_sure(const FoundLayout& found) {
  return found.proved ? fmt::format("the best of all {} sets of rules", found.tried)
                      : fmt::format("{} sets of rules tried, not proved the best", found.tried);
}

std::optional<FoundAndResolved> find_layout(const SearchRequest& request, const Layout& written, double seconds,
                                            DiagnosticSink& sink) {
  Trials trials(request);
  DiagnosticSink first;
  if (!trials.layout({}, first)) {  // the rules that are written clash
    for (Diagnostic& one : first.diagnostics())
      if (one.level == Level::error) sink.add(std::move(one));
    return {};
  }
  const Choices choices(request.model, written);
  std::optional<FoundSet> set =
      find_rules(trials, choices, request.memory, static_cast<int64_t>(seconds * work_of_a_second));
  if (!set) return FoundAndResolved{*trials.layout({}, first), {}};  // what cannot be, the compiler says
  set = smallest(trials, request.memory, std::move(*set));
  FoundLayout found = LayoutWriter(request, written, trials).write(*set);
  if (!set->fits) {
    report_memory(request, written, *set, found, sink);
    return {};
  }
  const std::string name = name_of_source(written.name, found.text, request.sources);
  if (!request.sources.find(name)) request.sources.add(name, found.text);
  SourceProgram text = load_program({name}, request.sources, sink);
  ast::Rules& all = std::get<ast::Layout>(text.files.back().decls.back().node).rules;
  ast::Rules rules(std::make_move_iterator(all.end() - static_cast<std::ptrdiff_t>(found.lines.size())),
                   std::make_move_iterator(all.end()));
  std::optional<Layout> layout =
      resolve_layout(request.program, request.model, request.options, request.sources, sink, &rules);
  if (!layout) return {};
  return FoundAndResolved{std::move(*layout), std::move(found)};
}

}  // namespace mesh
