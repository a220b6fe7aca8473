// verdict.cpp: the first screen: what a step costs, and the largest collective with its line and what would remove it.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/commands/page/facts.h"
#include "codegen/commands/page/html.h"
#include "codegen/layout/cost.h"
#include "meshrt/log.h"

namespace mesh::page {

using html::code;
using html::element;
using html::escaped;
using html::prose;
using meshrt::bytes_text;

namespace {

struct TimeShare {
  const char *kind, *meaning;
  double seconds;
};

std::string share_text(double part, double whole) {
  return fmt::format("{:.0f} %", whole > 0 ? 100 * part / whole : 0);
}

/// What the step's time goes to, as a bar with its legend.
std::string time_bar(const StepTime& time) {
  std::vector<TimeShare> parts{{"compute", "computes", time.compute},
                               {"exposed", "waits for communication", time.exposed}};
  if (time.bubble > 0) parts.push_back({"bubble", "waits for other stages", time.bubble});
  std::string bar, legend;
  for (const TimeShare& one : parts) {
    const double share = time.total() > 0 ? 100 * one.seconds / time.total() : 0;
    if (share > 0) bar += fmt::format("<span class=\"{}\" style=\"width:{:.2f}%\"></span>", one.kind, share);
    legend += fmt::format("<li><span class=\"key {}\"></span>{} {} <span class=\"dim\">{}</span></li>", one.kind,
                          one.meaning, time_text(one.seconds), share_text(one.seconds, time.total()));
  }
  return fmt::format("<div class=\"bar\" aria-hidden=\"true\">{}</div>\n<ul class=\"legend\">{}</ul>\n", bar, legend);
}

std::string number(const char* what, const std::string& value, const std::string& more) {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", what, element("strong", "", value),
                     more.empty() ? "" : element("span", "class=\"dim\"", more));
}

std::string source_line(const SourceMap& sources, Span span) {
  std::string_view text = sources.line_text(span.file, line_of(sources, span));
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return element("pre", "class=\"line\"", element("code", "", escaped(text)));
}

std::string largest(Facts& facts) {
  const PlannedCollective* one = largest_collective(facts.step);
  const int64_t on = bytes_handed_on(facts.step);
  if (one == nullptr)
    return element("p", "",
                   on > 0 ? fmt::format("No collective sends anything. Stages hand on {} in a step.", bytes_text(on))
                          : "Nothing is sent: each rank has what it needs.");
  const int64_t all = bytes_sent(facts.step);
  std::string text = fmt::format("<p class=\"what\">{}</p>\n", facts.title(*one));
  text += fmt::format("<p>It sends {} in a step, {} of all that the rank sends, and takes {} in {}.</p>\n",
                      element("strong", "", facts.sends(*one)),
                      share_text(static_cast<double>(volume(*one)), static_cast<double>(all)),
                      time_text(facts.seconds(*one)), one->phase);
  text += fmt::format("<dl class=\"story\"><dt>Why</dt><dd>{}.</dd>\n", prose(one->reason));
  if (one->span.known())
    text += fmt::format("<dt>Where</dt><dd>{}{}{}</dd>\n", facts.lines.link(one->span),
                        is_of_model(facts.graph, one->span) || one->scope.empty() ? "" : " in " + code(one->scope),
                        source_line(facts.sources, one->span));
  if (one->rule.known())
    text += fmt::format("<dt>By rule</dt><dd>{} {}</dd>\n", facts.lines.link(one->rule),
                        code(facts.sources.text(one->rule)));
  const auto index = static_cast<size_t>(one - facts.step.collectives.data());
  text += fmt::format("<dt>What removes it</dt><dd>{}</dd></dl>\n", facts.remedy(index));
  if (on > volume(*one))
    text += fmt::format("<p>What stages hand on is more: {} in a step; see <a href=\"#pipeline\">pipeline</a>.</p>\n",
                        bytes_text(on));
  return text;
}

}  // namespace

std::string verdict(Facts& facts) {
  const int64_t ranks = facts.mesh.ranks();
  std::string axes;
  for (const MeshAxis& axis : facts.mesh.axes)
    axes += fmt::format("{}{} {}", axes.empty() ? "" : " × ", escaped(axis.name), axis.size);
  const MemoryPlan& plan = facts.compiled.program.memory;
  std::string numbers =
      number("A step takes", time_text(facts.time.total()),
             "on machine " + escaped(facts.sharded.machine.name) +
                 (facts.compiled.precision == "f32" ? "" : ", precision " + escaped(facts.compiled.precision)));
  numbers += number("A rank sends", bytes_text(bytes_sent(facts.step)), "in a step, at most");
  numbers += number("A rank holds", bytes_text(plan.arena + plan.own),
                    facts.compiled.room ? escaped(room_text(*facts.compiled.room)) : "at its peak");
  numbers += number("Ranks", fmt::format("{}", ranks), axes);
  if (!facts.compiled.budget.empty()) {
    const auto broken = std::ranges::count(facts.compiled.budget, false, &LimitState::holds);
    numbers += number("Budget", broken == 0 ? "kept" : fmt::format("{} broken", broken),
                      fmt::format("of {} limits", facts.compiled.budget.size()));
  }
  return fmt::format(
      "<section id=\"verdict\" aria-label=\"Verdict\">\n<dl class=\"numbers\">\n{}</dl>\n{}</section>\n"
      "<section id=\"largest\" class=\"card\" aria-labelledby=\"largest-title\">\n<h2 id=\"largest-title\">The largest "
      "communication</h2>\n{}</section>\n",
      numbers, time_bar(facts.time), largest(facts));
}

}  // namespace mesh::page
