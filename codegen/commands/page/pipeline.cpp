// pipeline.cpp: the stages of a pipeline over time, and what they take and hand on.
#include <fmt/format.h>

#include "codegen/commands/page/facts.h"
#include "codegen/commands/page/html.h"
#include "codegen/commands/plan_pipeline.h"
#include "codegen/commands/schedule_of_spec.h"
#include "codegen/commands/schedule_picture.h"
#include "codegen/layout/cost.h"
#include "meshrt/log.h"

namespace mesh::page {

using html::code;
using html::element;
using html::escaped;
using meshrt::bytes_text;

namespace {

constexpr size_t most_actions = 6000;  // that are drawn

std::string timeline(const SpecSchedule& schedule) {
  size_t actions = 0;
  for (const auto& of_rank : schedule.planned.run.actions) actions += of_rank.size();
  if (actions > most_actions)
    return "<p>There are too many actions for a picture on this page: <code>meshc schedule SPEC --svg FILE</code> "
           "draws "
           "them.</p>\n";
  return element("div", "class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"Timeline of the pipeline\"",
                 draw_svg(schedule.in_microseconds(), schedule.title())) +
         "<p class=\"dim\">F: forward, B: backward (I for values, W for weights), R: computed again; the number is the "
         "micro-batch. Times in the titles of fields are microseconds.</p>\n";
}

html::Row row_of(const std::vector<std::string>& cells) {
  html::Row row;
  for (const std::string& cell : cells) row.cells.push_back(escaped(cell));
  return row;
}

}  // namespace

std::string pipeline(Facts& facts) {
  const std::optional<PlannedPipeline>& planned = facts.step.pipeline;
  if (!planned) return "";
  const SpecSchedule schedule(facts.sharded, *planned);
  const std::vector<std::vector<std::string>> cells = stage_rows(facts.sharded, *planned);
  std::vector<html::Column> columns;
  for (const std::string& heading : cells.front()) columns.push_back({heading, !columns.empty()});
  std::vector<html::Row> rows;
  for (size_t i = 1; i < cells.size(); ++i) rows.push_back(row_of(cells[i]));
  std::string text = fmt::format("<p>The rule: {}.</p>\n", facts.lines.link(facts.sharded.layout.pipeline.span));
  text += timeline(schedule) + html::table("Stages", columns, rows);
  std::vector<html::Row> messages;
  for (const PlannedMessage& one : facts.step.messages)
    messages.push_back(
        {{code(one.what.name), one.what.down ? "the stage before" : "the next stage",
          fmt::format("{}, {} times {}", bytes_text(one.volume()), one.count, bytes_text(one.what.bytes)),
          time_text(one.what.seconds * static_cast<double>(one.count))}});
  text +=
      html::table("What a stage hands on in a step", {{"Value"}, {"To"}, {"Sends", true}, {"Time", true}}, messages);
  return section("pipeline", "Pipeline", text);
}

}  // namespace mesh::page
