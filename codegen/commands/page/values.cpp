// values.cpp: every named value: how it lies, which rank holds which part, and which rules and values brought that.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/commands/page/facts.h"
#include "codegen/commands/page/html.h"
#include "codegen/commands/page/tile_picture.h"
#include "codegen/commands/why_split.h"
#include "meshrt/log.h"

namespace mesh::page {

using html::code;
using html::element;
using html::escaped;
using html::prose;
using meshrt::bytes_text;

namespace {

struct Kind {
  const char *name, *title;
};
constexpr std::array kinds{Kind{"input", "Inputs"},       Kind{"parameter", "Parameters"},
                           Kind{"gradient", "Gradients"}, Kind{"optimizer", "Optimizer state"},
                           Kind{"state", "State"},        Kind{"activation", "Other values, in order of execution"}};

class Values {
 public:
  explicit Values(Facts& facts) : facts_(facts) {}

  std::string run() {
    std::string tables;
    for (const Kind& kind : kinds) tables += of_kind(kind);
    return pictures_.definitions() + tables;
  }

 private:
  std::string of_kind(const Kind& kind) {
    std::vector<html::Row> rows;
    for (const PlannedTensor& tensor : facts_.tensors)
      if (std::string_view(tensor.kind) == kind.name) rows.push_back(row(tensor));
    if (rows.empty()) return "";
    return html::table(kind.title, {{"Value"}, {"Tiles"}, {"Lies as"}, {"A rank holds"}, {"Bytes", true}, {"Line"}},
                       rows);
  }

  html::Row row(const PlannedTensor& tensor) {
    const Graph& graph = facts_.graph;
    const ValueType& type = graph.type(tensor.value);
    const Placement& lies = facts_.sharded.placement(tensor.value);
    const std::string line = facts_.lines.link(graph.node(graph.value(tensor.value).producer).span);
    std::string local;
    for (size_t i = 0; i < type.dims.size(); ++i)
      local +=
          fmt::format("{}{}", i ? " × " : "", largest_extent(facts_.mesh, graph.dim(type.dims[i]).size, lies.dims[i]));
    return {{code(tensor.name), pictures_.picture(graph, facts_.mesh, type, lies),
             code(to_string(graph, facts_.mesh, type, lies)) + story(tensor.value, type, lies),
             local.empty() ? "a number" : local, bytes_text(local_bytes(graph, facts_.mesh, type, lies)),
             line.empty() ? "-" : line}};
  }

  /// Why it lies so, and which ranks hold what: behind a line that opens.
  std::string story(ValueId value, const ValueType& type, const Placement& lies) {
    std::string text;
    for (const WhySo& one : why_it_lies_so(facts_.sharded, value)) {
      text += element("p", "", prose(one.what) + (one.causes.empty() ? "." : ":"));
      std::string list;
      for (const SplitCause& cause : one.causes) {
        const std::string line = facts_.lines.link(cause.span);
        list += element("li", "", prose(cause.text) + (line.empty() ? "" : " (" + line + ")"));
      }
      if (!list.empty()) text += element("ol", "", list);
    }
    if (text.empty()) return "";
    return element("details", "",
                   "<summary>why, and which rank holds what</summary>" + text +
                       table_of_tiles(facts_.graph, facts_.mesh, type, lies));
  }

  Facts& facts_;
  TilePictures pictures_;
};

}  // namespace

std::string values(Facts& facts) {
  const std::string tables = Values(facts).run();
  if (tables.empty()) return "";
  return section(
      "values", "Values and their tiles",
      "<p>A picture shows the parts of the first two dims that are split, the first one down, with the ranks "
      "that hold each. Dashes: each of these ranks has a term of a sum that is still to be added up.</p>\n" +
          tables);
}

}  // namespace mesh::page
