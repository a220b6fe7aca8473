#include "codegen/graph/band.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "codegen/graph/horizon.h"
#include "codegen/graph/op.h"

namespace mesh {
namespace {

using meshrt::IndexRange;

/// The pairs whose difference is at least `by`, as an area.
double pairs_from(IndexRange first, IndexRange second, int64_t by) {
  const auto width = static_cast<double>(second.size());
  // Of all rows above one: so many of their elements as are left of the diagonal.
  const auto above = [&](int64_t row) {
    const auto reach = static_cast<double>(row - by - second.begin);
    if (reach <= 0) return 0.0;
    return reach <= width ? reach * reach / 2 : width * width / 2 + (reach - width) * width;
  };
  return above(first.end) - above(first.begin);
}

/// What is known of a value that is computed of positions and numbers alone.
std::optional<Horizon> of_positions(const Graph& graph, ValueId value) {
  const Node& node = graph.node(graph.value(value).producer);
  if (std::holds_alternative<LoopOp>(node.op)) return {};
  std::vector<Horizon> operands;
  for (const ValueId input : node.inputs) {
    std::optional<Horizon> operand = of_positions(graph, input);
    if (!operand) return {};
    operands.push_back(*std::move(operand));
  }
  const std::vector<Horizon> results = definition(node.op).causality(graph, node, operands);
  const Horizon& known = results[std::ranges::find(node.results, value) - node.results.begin()];
  return known.position || !known.settled.empty() ? std::optional(known) : std::nullopt;
}

/// Where one comparison of positions is false, if the value is that: where it is not, it is true.
std::optional<Settled> falsehood(const Horizon& known) {
  for (const Settled& no : known.settled)
    if (no.number == 0.0 && std::ranges::count(known.settled, Settled{no.early, no.late, 1 - no.by, 1}) > 0) return no;
  return {};
}

bool narrow(const Graph& graph, ValueId keep, Band& band) {
  const std::optional<Horizon> known = of_positions(graph, keep);
  if (!known) return false;
  if (const std::optional<Settled> no = falsehood(*known)) {
    const bool above = no->early == band.second;  // first - second >= by
    const DimId first = above ? no->late : no->early, second = above ? no->early : no->late;
    if (second != band.second || (band.first && first != band.first)) return false;
    band.first = first;
    if (above) band.most = std::min(band.most.value_or(no->by - 1), no->by - 1);
    else band.least = std::max(band.least.value_or(1 - no->by), 1 - no->by);
    return true;
  }
  const Node& node = graph.node(graph.value(keep).producer);
  return map_function(node.op) == MapFunction::logical_and &&
         std::ranges::all_of(node.inputs, [&](ValueId one) { return narrow(graph, one, band); });
}

}  // namespace

double Band::pairs(IndexRange along_first, IndexRange along_second) const {
  const double all = static_cast<double>(along_first.size()) * static_cast<double>(along_second.size());
  const double from = least ? pairs_from(along_first, along_second, *least) : all;
  return from - (most ? pairs_from(along_first, along_second, *most + 1) : 0);
}

bool Band::meets(IndexRange along_first, IndexRange along_second) const {
  if (along_first.size() <= 0 || along_second.size() <= 0) return false;
  const int64_t smallest = along_first.begin - (along_second.end - 1),
                largest = along_first.end - 1 - along_second.begin;
  return (!least || largest >= *least) && (!most || smallest <= *most);
}

std::string band_text(const std::string& first, const std::string& second, std::optional<int64_t> least,
                      std::optional<int64_t> most) {
  if (!least && !most) return "";
  if (least == 0) return most ? fmt::format(", causal, window {}", *most + 1) : ", causal";
  if (least && most && *least == -*most) return fmt::format(", window {}", *most + 1);
  return fmt::format(", {} - {}{}{}", first, second, least ? fmt::format(" from {}", *least) : "",
                     most ? fmt::format(" to {}", *most) : "");
}

std::optional<Band> band_of(const Graph& graph, ValueId keep, DimId second) {
  Band band{{}, second};
  return narrow(graph, keep, band) && band.first ? std::optional(band) : std::nullopt;
}

}  // namespace mesh
