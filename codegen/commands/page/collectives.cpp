// collectives.cpp: every collective of a step, the dearest first, with its reason and what would remove it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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

std::string where(Facts& facts, const PlannedCollective& one) {
  std::string text = facts.lines.link(one.span) + (needs_call(facts.graph, one) ? " in " + code(one.in_call) : "");
  return text.empty() ? "-" : text;
}

std::string why(Facts& facts, const PlannedCollective& one, const Prediction& step) {
  std::string text = prose(one.reason);
  if (one.rule.known()) text += fmt::format(", by the rule {}", facts.lines.link(one.rule));
  const auto first = std::ranges::find(step.collectives, one.call, &PlannedCollective::call);
  if (&*first != &one) text += ". It is sent together with " + code(first->tensor);
  return text + ".";
}

/// A bar as long as its part of the longest.
std::string length(double part, double longest) {
  return fmt::format("<span class=\"length\" aria-hidden=\"true\"><span style=\"width:{:.1f}%\"></span></span>",
                     longest > 0 ? 100 * part / longest : 0);
}

std::vector<html::Row> rows_of(Facts& facts, const Prediction& step, const std::vector<size_t>& order, bool own) {
  std::vector<html::Row> rows;
  const double longest = order.empty() ? 0 : facts.seconds(step.collectives[order.front()]);
  for (const size_t i : order) {
    const PlannedCollective& one = step.collectives[i];
    rows.push_back({{facts.title(one), time_text(facts.seconds(one)) + length(facts.seconds(one), longest),
                     facts.sends(one), one.phase, where(facts, one), why(facts, one, step)},
                    own ? Facts::id_of_collective(i) : ""});
    if (own) rows.back().cells.push_back(facts.remedy(i));
  }
  return rows;
}

std::vector<size_t> by_cost(const Facts& facts, const Prediction& step, bool sending) {
  std::vector<size_t> order(step.collectives.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](size_t i) { return (volume(step.collectives[i]) > 0) != sending; });
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) {
    return std::pair(facts.seconds(step.collectives[i]), volume(step.collectives[i]));
  });
  return order;
}

const std::vector<html::Column> columns{{"Collective"}, {"Time", true}, {"Sends", true}, {"In"}, {"Line"}, {"Why"}};

/// What replicas that train apart send beside that.
std::string outer_step(Facts& facts) {
  const Entry* outer = outer_step_of(facts.compiled);
  if (outer == nullptr) return "";
  const Prediction after = predict(outer->sharded);
  const std::string when = outer->after_steps == 1 ? "each step" : fmt::format("every {} steps", outer->after_steps);
  return html::table(fmt::format("What replicas send after {}: {} in all", when, bytes_text(bytes_sent(after))),
                     columns, rows_of(facts, after, by_cost(facts, after, true), false));
}

}  // namespace

std::string collectives(Facts& facts) {
  const Prediction& step = facts.step;
  if (step.collectives.empty()) return section("collectives", "Collectives", "<p>A step has none.</p>\n");
  std::vector<html::Column> own = columns;
  own.push_back({"What removes it"});
  const std::vector<size_t> sending = by_cost(facts, step, true), silent = by_cost(facts, step, false);
  std::string text = fmt::format(
      "<p>Bytes of each are those of the rank that sends most of it: {} in a step. All of them together take {}; "
      "computation hides all but {} of that.</p>\n",
      bytes_text(bytes_sent(step)), time_text(step.communication_seconds), time_text(facts.time.exposed));
  if (!sending.empty())
    text += html::table(fmt::format("{} collectives of a training step, the dearest first", sending.size()), own,
                        rows_of(facts, step, sending, true));
  text += outer_step(facts);
  if (!silent.empty())
    text += fmt::format("<details><summary>{} that send nothing</summary>\n{}</details>\n", silent.size(),
                        html::table("Movements in which each rank keeps a part of what it has", own,
                                    rows_of(facts, step, silent, true)));
  return section("collectives", "Collectives by cost", text);
}

}  // namespace mesh::page
