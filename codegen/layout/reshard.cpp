#include "codegen/layout/reshard.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "codegen/graph/hash.h"
#include "codegen/layout/redistribution.h"
#include "codegen/layout/traffic.h"

namespace mesh {
namespace {

bool is_prefix(const std::vector<AxisId>& axes, const std::vector<AxisId>& of) {
  return axes.size() <= of.size() && std::equal(axes.begin(), axes.end(), of.begin());
}

/// Elements that a rank receives at least before a value that lies as `at` lies as `to`. None is more than the average
/// of all ranks.
double still_needed(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& at,
                    const Placement& to) {
  if (!at.at.empty() || !to.at.empty()) return 0;  // not known
  const auto is_dealt = [](const DimPlacement& dim) { return bool(dim.deal); };
  if (std::ranges::any_of(at.dims, is_dealt) || std::ranges::any_of(to.dims, is_dealt)) return 0;  // not known
  double needed = 1, all = 1;  // of a rank, of the value
  for (size_t i = 0; i < type.dims.size(); ++i) {
    needed *= static_cast<double>(graph.dim(type.dims[i]).size / mesh.size(to.dims[i].axes));
    all *= static_cast<double>(graph.dim(type.dims[i]).size);
  }
  int64_t terms = 1, kept = 1;
  for (const Partial& partial : at.partial)
    (std::ranges::count(to.partial, partial) > 0 ? kept : terms) *= mesh.axes[partial.axis].size;
  // Of each element all terms but one are sent, and its sum to all that need it but one.
  if (terms > 1)
    return needed +
           static_cast<double>(terms - 2) * all * static_cast<double>(kept) / static_cast<double>(mesh.ranks());
  double held = 1;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const std::vector<AxisId>&has = at.dims[i].axes, &wants = to.dims[i].axes;
    if (!is_prefix(has, wants) && !is_prefix(wants, has)) return needed;  // there is a rank that holds nothing of it
    const int64_t parts = std::max(mesh.size(has), mesh.size(wants));
    held *= static_cast<double>((graph.dim(type.dims[i]).size + parts - 1) / parts);
  }
  return std::max(0.0, needed - held);
}

}  // namespace

size_t ReshardPlanner::Hash::of(const std::vector<DimId>& dims, const Placement& from, const Placement& to) {
  size_t hash = dims.size();
  for (const DimId dim : dims) hash = hash_with(hash, dim.index);
  hash = hash_with(hash_with(hash, hash_of(from)), hash_of(to));
  return hash ^ hash >> 32;
}

const std::optional<ReshardPath>& ReshardPlanner::plan(const ValueType& type, const Placement& from,
                                                       const Placement& to) {
  static const std::optional<ReshardPath> nothing_moves = ReshardPath{};
  const bool circulates = from.circulates() || to.circulates();
  if (from == to && !circulates && !to.has_margins()) return nothing_moves;
  const auto found = known_.find(std::tie(type.element, type.dims, from, to));  // asked most often: no copies
  if (found != known_.end()) return found->second;
  std::optional<ReshardPath> path = circulates         ? with_circulation(type, from, to)
                                    : to.has_margins() ? with_margins(type, from, to)
                                                       : search(type, from, to);
  return known_[{type.element, type.dims, from, to}] = std::move(path);
}

void ReshardPlanner::price(const ValueType& type, const Placement& before, const Placement& after,
                           ReshardStep& step) const {
  if (step.kind == CollectiveKind::redistribute) return price_redistribution(type, before, after, step);
  step.bytes = sent_bytes(graph_, mesh_, type, before, after, step);
  // What is reduced comes to one rank from all others.
  const int64_t group = group_size(mesh_, step), senders = step.kind == CollectiveKind::reduce ? group - 1 : 1;
  step.seconds = step.kind == CollectiveKind::ring
                     ? ring_seconds(machine_, mesh_, step)
                     : collective_seconds(machine_, mesh_, step.axes, step.kind, senders * step.bytes, group);
  if (step.at.owner && !step.at.varying) take_turns(step);
}

/// A broadcast is sent by the turn's owner, a reduce by all others.
void ReshardPlanner::take_turns(ReshardStep& step) const {
  step.turns = graph_.dim(step.at.owner.dim).size;
  std::vector<int64_t> owned(static_cast<size_t>(mesh_.axes[step.at.axis].size));
  for (int64_t turn = 0; turn < step.turns; ++turn)
    ++owned[static_cast<size_t>(coordinate_at(mesh_, step.at, step.turns, turn))];
  const auto [fewest, most] = std::ranges::minmax(owned);
  step.busy = step.kind == CollectiveKind::broadcast ? most : step.turns - fewest;
}

/// Of a step that sends nothing.
double ReshardPlanner::message_seconds(const ReshardStep& step) const {
  return transfer_seconds(machine_, mesh_, step.axes, step.kind, 0);
}

/// A message to or from each rank with which one exchanges, and the copy of what is kept.
void ReshardPlanner::price_redistribution(const ValueType& type, const Placement& before, const Placement& after,
                                          ReshardStep& step) const {
  count(mesh_.size(step.axes) / 3);
  const auto most = redistributed(graph_, mesh_, type, step.axes, before, after);
  const auto size = static_cast<int64_t>(meshrt::size_of(type.element));
  step.bytes = most.sent * size;
  const auto copied = static_cast<double>(most.kept * size);
  step.seconds = collective_seconds(machine_, mesh_, step.axes, step.kind, step.bytes) +
                 static_cast<double>(std::max<int64_t>(0, most.messages - 1)) * message_seconds(step) +
                 compute_seconds(machine_, Effort::cheap, type.element, 0, copied);
}

std::optional<ReshardPath> ReshardPlanner::with_margins(const ValueType& type, const Placement& from,
                                                        const Placement& to) {
  const Placement parts = to.without_margins();
  std::optional<ReshardPath> path = plan(type, from, parts);
  if (!path) return path;
  Placement at = parts;
  for (size_t i = 0; i < to.dims.size(); ++i) {
    const DimPlacement& dim = to.dims[i];
    if (!dim.margin) continue;
    at.dims[i].margin = dim.margin;
    const int position = static_cast<int>(i);
    ReshardStep step{CollectiveKind::halo, dim.axes, position, position, {}, Reduce::sum, 0, 0, {}, {}};
    price(type, parts, to, step);
    path->seconds += step.seconds;
    path->steps.push_back(std::move(step));
    path->placements.push_back(at);
  }
  return path;
}

std::optional<ReshardPath> ReshardPlanner::with_circulation(const ValueType& type, const Placement& from,
                                                            const Placement& to) {
  std::optional<ReshardPath> path = plan(type, from.without_circulation(), to.without_circulation());
  if (!path) return path;
  const auto go_round = [&](const Placement& before, const Placement& after, bool first) {
    const Placement& circulating = first ? before : after;
    const auto dim = std::ranges::find_if(circulating.dims, &DimPlacement::circulates);
    if (dim == circulating.dims.end()) return;
    const int position = static_cast<int>(dim - circulating.dims.begin());
    ReshardStep step{CollectiveKind::ring, dim->axes, position, position, {}, Reduce::sum, 0, 0, {}, {}};
    step.meets = dim->meets;
    price(type, before, after, step);
    path->seconds += step.seconds;
    path->steps.insert(first ? path->steps.begin() : path->steps.end(), std::move(step));
    path->placements.insert(first ? path->placements.begin() : path->placements.end(), after);
  };
  go_round(from, from.without_circulation(), true);
  go_round(to.without_circulation(), to, false);
  return path;
}

/// Those that split the value on either side, and others, along which all hold the same and which can share the work,
/// while they are few: every axis multiplies the ways.
std::vector<AxisId> ReshardPlanner::axes_for(const Placement& from, const Placement& to) const {
  std::vector<AxisId> used, others;
  for (AxisId axis = 0; axis != mesh_.axes.size(); ++axis) {
    if (from.uses(axis) || to.uses(axis)) used.push_back(axis);
    else if (mesh_.axes[axis].size > 1) others.push_back(axis);
  }
  for (size_t i = 0; i < others.size() && used.size() < many_axes; ++i) used.push_back(others[i]);
  return used;
}

/// Time that a redistribution takes at least, by what is known at once: its price is much work where many ranks
/// exchange with many, and then it takes longer than other ways.
double ReshardPlanner::least_seconds(const ValueType& type, const Placement& before, const Move& move) const {
  const int64_t messages = least_messages(graph_, mesh_, type, before, move.after);
  if (messages == 0) return 0;
  const double bytes =
      still_needed(graph_, mesh_, type, before, move.after) * static_cast<double>(meshrt::size_of(type.element));
  return static_cast<double>(messages - 1) * message_seconds(move.step) +
         collective_seconds(machine_, mesh_, move.step.axes, move.step.kind, static_cast<int64_t>(bytes));
}

/// Time that no way from one placement to the other takes less than.
double ReshardPlanner::least_seconds(const ValueType& type, const Placement& at, const Placement& to) const {
  const double elements = still_needed(graph_, mesh_, type, at, to);
  if (elements == 0) return 0;
  const bool one_host = mesh_.ranks() <= machine_.node_ranks;
  double rate = 0, latency = std::numeric_limits<double>::infinity();
  for (const Links* links : {&machine_.node, one_host ? &machine_.node : &machine_.network})
    for (const Link* link : {&links->together, &links->sends()}) {
      rate = std::max(rate, link->gbs.fastest());
      latency = std::min(latency, link->latency_us);
    }
  return 1e-6 * latency + elements * static_cast<double>(meshrt::size_of(type.element)) / (1e9 * rate);
}

std::optional<ReshardPath> ReshardPlanner::search(const ValueType& type, const Placement& from,
                                                  const Placement& to) const {
  for (const Partial& partial : to.partial) {
    const bool may_be_term = partial.reduce == Reduce::sum && from.where(partial.axis);
    if (std::ranges::count(from.partial, partial) == 0 && !may_be_term) return std::nullopt;
  }
  const std::vector<AxisId> axes = axes_for(from, to);
  struct Reached {
    double seconds;
    Placement before;
    ReshardStep step;  // by which it was
  };
  std::map<Placement, Reached> reached;
  struct Unpriced {
    double seconds;  // until it begins
    Placement before;
    Move move;
  };
  std::vector<Unpriced> unpriced;
  struct State {
    double least;  // of the whole way by this placement
    double seconds;
    Placement placement;
    std::optional<size_t> unpriced = {};  // it is not reached yet
    bool operator>(const State& o) const {
      return std::tie(least, o.seconds, placement) > std::tie(o.least, seconds, o.placement);
    }
  };
  std::priority_queue<State, std::vector<State>, std::greater<>> open;
  const auto reach = [&](double so_far, const Placement& before, Move move) {
    count(1);
    price(type, before, move.after, move.step);
    const double seconds = so_far + each_step_seconds + move.step.seconds;
    const auto known = reached.find(move.after);
    if (known != reached.end() && known->second.seconds <= seconds) return;
    open.push({seconds + least_seconds(type, move.after, to), seconds, move.after});
    reached.insert_or_assign(move.after, Reached{seconds, before, std::move(move.step)});
  };
  reached[from] = {};
  open.push({0, 0, from});
  while (!open.empty() && (open.top().unpriced || open.top().placement != to)) {
    const State state = open.top();
    open.pop();
    if (state.unpriced) {
      Unpriced& one = unpriced[*state.unpriced];
      reach(one.seconds, one.before, std::move(one.move));
      continue;
    }
    const Reached& here = reached[state.placement];
    if (state.seconds > here.seconds) continue;
    const bool permuted = state.placement != from && here.step.kind == CollectiveKind::permute;
    for (Move& move : moves(mesh_, axes, state.placement, to, permuted)) {
      if (move.step.kind != CollectiveKind::redistribute) {
        reach(state.seconds, state.placement, std::move(move));
        continue;
      }
      const double least =
          state.seconds + least_seconds(type, state.placement, move) + least_seconds(type, move.after, to);
      open.push({std::max(state.least, least), state.seconds, move.after, unpriced.size()});
      unpriced.push_back({state.seconds, state.placement, std::move(move)});
    }
  }
  if (open.empty()) return std::nullopt;
  ReshardPath path;
  for (Placement at = to; at != from; at = reached[at].before) {
    path.steps.push_back(reached[at].step);
    path.placements.push_back(at);
  }
  std::ranges::reverse(path.steps);
  std::ranges::reverse(path.placements);
  join_slices(path);
  for (const ReshardStep& step : path.steps) path.seconds += step.seconds;
  return path;
}

/// Slices of a dim over several axes, one behind the other, are one step.
void ReshardPlanner::join_slices(ReshardPath& path) {
  for (size_t i = 1; i < path.steps.size();) {
    ReshardStep &last = path.steps[i - 1], &next = path.steps[i];
    if (next.kind != CollectiveKind::slice || last.kind != next.kind || last.to_dim != next.to_dim || next.to_dim < 0) {
      ++i;
      continue;
    }
    last.axes.insert(last.axes.end(), next.axes.begin(), next.axes.end());
    path.steps.erase(path.steps.begin() + static_cast<std::ptrdiff_t>(i));
    path.placements.erase(path.placements.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
}

}  // namespace mesh
