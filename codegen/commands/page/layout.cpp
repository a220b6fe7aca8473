// layout.cpp: what a search has found for `auto`, rules that the compiler adds, the layout's budget, and what the
// compiler had to say.
#include <fmt/format.h>

#include "codegen/commands/page/facts.h"
#include "codegen/commands/page/html.h"
#include "codegen/layout/rules.h"

namespace mesh::page {

using html::code;
using html::element;
using html::escaped;
using html::prose;

std::string layout(Facts& facts) {
  std::string text;
  if (const std::optional<FoundLayout>& found = facts.compiled.found) {
    std::vector<html::Row> rows;
    rows.reserve(found->lines.size());
    for (const FoundLayout::Line& line : found->lines) rows.push_back({{code(line.text), escaped(line.cost)}});
    text += html::table("Rules that were found by search: " + how_sure(*found), {{"Rule"}, {"What it is worth"}}, rows);
  }
  const ShardedGraph& sharded = facts.compiled.sharded();
  if (const std::vector<const Rule*> added = added_rules(sharded.layout); !added.empty()) {
    std::vector<html::Row> rows;
    rows.reserve(added.size());
    for (const Rule* rule : added)
      rows.push_back({{code(rule_text(sharded.graph, sharded.layout.mesh, *rule)), escaped(rule->because)}});
    text += html::table("Rules that the compiler adds", {{"Rule"}, {"Why"}}, rows);
  }
  if (!facts.compiled.budget.empty()) {
    std::vector<html::Row> rows;
    for (const LimitState& state : facts.compiled.budget)
      rows.push_back({{code(state.limit.text), escaped(at_text(state)),
                       state.holds ? "kept" : element("strong", "class=\"slower\"", "broken"),
                       facts.lines.link(state.limit.span)}});
    text += html::table("Budget", {{"Limit"}, {"It is at"}, {"State"}, {"Line"}}, rows);
  }
  return text.empty() ? "" : section("layout", "Layout", text);
}

std::string messages(Facts& facts) {
  std::string list;
  for (const Diagnostic& one : facts.session.sink.diagnostics()) {
    std::string text =
        fmt::format("<strong class=\"{0}\">{0}[{1}]</strong>: {2}", one.level == Level::error ? "error" : "warning",
                    escaped(one.code), prose(one.message));
    if (const std::string line = facts.lines.link(one.span()); !line.empty()) text += " (" + line + ")";
    std::string more;
    for (const std::string& note : one.notes) more += element("li", "", prose(note));
    for (const std::string& help : one.helps) more += element("li", "", "<strong>help</strong>: " + prose(help));
    if (!more.empty()) text += element("ul", "", more);
    list += element("li", "", text) + "\n";
  }
  return list.empty() ? "" : section("messages", "Messages", element("ul", "class=\"messages\"", list));
}

}  // namespace mesh::page
