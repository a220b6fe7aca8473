#include "codegen/elaborate/manual_varying.h"

#include <algorithm>

#include "codegen/elaborate/manual.h"
#include "codegen/graph/op.h"

namespace mesh::elaboration {
namespace {

const char* name_of(AcrossRanks::Kind kind) {
  switch (kind) {
    case AcrossRanks::Kind::part: return "part";
    case AcrossRanks::Kind::coordinate: return "coordinate";
    case AcrossRanks::Kind::all_reduce: return "all_reduce";
    case AcrossRanks::Kind::all_gather: return "all_gather";
    case AcrossRanks::Kind::reduce_scatter: return "reduce_scatter";
    case AcrossRanks::Kind::permute: return "permute";
    case AcrossRanks::Kind::all_to_all: return "all_to_all";
  }
  return "";
}

/// What comes of it where every rank has the same.
const char* effect_on_same(AcrossRanks::Kind kind) {
  switch (kind) {
    case AcrossRanks::Kind::all_reduce:
    case AcrossRanks::Kind::reduce_scatter: return "adding it up would count it once for every rank";
    case AcrossRanks::Kind::all_gather: return "there are no parts to put together";
    case AcrossRanks::Kind::permute: return "each rank would get what it has";
    default: return "each rank has all that it would be sent";
  }
}

}  // namespace

std::vector<NodeId> nodes_of(const Graph& graph, const Region& region) {
  std::vector<NodeId> nodes = graph.body(region.body).nodes;
  std::erase_if(nodes, [&](NodeId id) {
    return id.index < region.first_node || std::holds_alternative<ReadOp>(graph.node(id).op);
  });
  return nodes;
}

Varying::Varying(Elaboration& e, const Region& region) : e_(e), region_(region) {
  const std::vector<NodeId> nodes = nodes_of(e.graph, region);
  body(nodes);
  reports_ = true;
  body(nodes);
}

std::vector<DimId> Varying::of(ValueId value) const {
  std::vector<DimId> ranks;
  const Over over = this->over(value);
  for (const Region::Axis& axis : region_.axes)
    if (over.contains(axis.ranks)) ranks.push_back(axis.ranks);
  return ranks;
}

Varying::Over Varying::over(ValueId value) const {
  const auto found = over_.find(value);
  return found == over_.end() ? Over{} : found->second;
}

bool Varying::add(ValueId value, const Over& over) {
  Over& known = over_[value];
  const size_t before = known.size();
  known.insert(over.begin(), over.end());
  return known.size() > before;
}

void Varying::body(const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) node(id);
}

void Varying::node(NodeId id) {
  const Node& node = e_.graph.node(id);
  const auto known = e_.tables.across.find(id);
  if (known != e_.tables.across.end() &&
      std::ranges::count(region_.axes, known->second.ranks, &Region::Axis::ranks) > 0)
    return across(id, known->second);
  if (const LoopOp* op = std::get_if<LoopOp>(&node.op)) return loop(*op);
  Over over;
  for (const ValueId input : node.inputs) over.merge(this->over(input));
  for (const ValueId result : node.results) add(result, over);
  if (!node.results.empty() || over.empty() || !reports_) return;
  e_.error("E0350", node.span, "this differs from rank to rank of `{}`", axis_of(e_, *over.begin()))
      .here("all ranks must agree on it")
      .label(region_.span, "the region")
      .help(fmt::format("reduce it first: `all_reduce(x, over: {})`", axis_of(e_, *over.begin())));
}

/// What varies at the end of a turn varies at the beginning of the next one.
void Varying::loop(const LoopOp& op) {
  for (const LoopOp::Slice& slice : op.slices) add(slice.turn, over(slice.stacked));
  for (const LoopOp::Carry& carry : op.carries) add(carry.entering, over(carry.initial));
  const bool reports = reports_;
  reports_ = false;
  for (bool news = true; news;) {
    body(e_.graph.body(op.body).nodes);
    news = false;
    for (const LoopOp::Carry& carry : op.carries) news |= add(carry.entering, over(carry.leaving));
  }
  reports_ = reports;
  if (reports_) body(e_.graph.body(op.body).nodes);
  for (const LoopOp::Carry& carry : op.carries) add(carry.result, over(carry.entering));
  for (const LoopOp::Collect& collect : op.collects) add(collect.stacked, over(collect.turn));
}

void Varying::across(NodeId id, const AcrossRanks& across) {
  using Kind = AcrossRanks::Kind;
  const Node& node = e_.graph.node(id);
  Over over = node.inputs.empty() ? Over{} : this->over(node.inputs[0]);
  const bool makes_parts = across.kind == Kind::part || across.kind == Kind::coordinate;
  if (!makes_parts && !over.contains(across.ranks) && reports_) same_already(node, across);
  if (across.kind == Kind::all_reduce || across.kind == Kind::all_gather) over.erase(across.ranks);
  else over.insert(across.ranks);
  add(node.results[0], over);
}

void Varying::same_already(const Node& node, const AcrossRanks& across) {
  const std::string& axis = axis_of(e_, across.ranks);
  auto report =
      e_.error("E0353", node.span, "`{}` of what is the same on all ranks of `{}`", name_of(across.kind), axis);
  report.here(effect_on_same(across.kind));
  const NodeId maker = e_.graph.value(node.inputs[0]).producer;
  const auto made = e_.tables.across.find(maker);
  if (made != e_.tables.across.end() && made->second.ranks == across.ranks)
    report.label(e_.graph.node(maker).span, "the same on all ranks since this `{}`", name_of(made->second.kind));
  else
    report.label(region_.span, "what comes from outside of the region is the same, but for its parts of dims cut here");
  report.help("leave it out");
}

}  // namespace mesh::elaboration
