#include "codegen/layout/reshard.h"

#include <algorithm>
#include <queue>

namespace mesh {
namespace {

struct Move {
  CollectiveKind kind;
  AxisId axis;
  int from_dim, to_dim;
  Reduce reduce;
  Placement after;
};

/// Whether `axes` followed by `axis` is how `target` begins.
bool continues(const std::vector<AxisId>& axes, AxisId axis, const std::vector<AxisId>& target) {
  return axes.size() < target.size() && std::equal(axes.begin(), axes.end(), target.begin()) &&
         target[axes.size()] == axis;
}

bool is_prefix(const std::vector<AxisId>& axes, const std::vector<AxisId>& target) {
  return axes.size() <= target.size() && std::equal(axes.begin(), axes.end(), target.begin());
}

bool has_partial(const Placement& placement, AxisId axis) {
  return std::any_of(placement.partial.begin(), placement.partial.end(),
                     [&](const Partial& p) { return p.axis == axis; });
}

/// One axis at a time: completed, scattered, gathered, moved to another dim, or sliced.
std::vector<Move> moves(const MeshShape& mesh, const Placement& at, const Placement& to) {
  std::vector<Move> all;
  const auto attach = [&](Placement base, AxisId axis, const auto& add) {  // to every dim that wants `axis` next
    for (size_t j = 0; j < base.dims.size(); ++j)
      if (continues(base.dims[j].axes, axis, to.dims[j].axes)) {
        Placement after = base;
        after.dims[j].axes.push_back(axis);
        add(static_cast<int>(j), after);
      }
  };
  for (const Partial& partial : at.partial) {
    if (has_partial(to, partial.axis)) continue;
    Placement done = at;
    std::erase(done.partial, partial);
    all.push_back({CollectiveKind::all_reduce, partial.axis, -1, -1, partial.reduce, done});
    attach(done, partial.axis, [&](int j, const Placement& after) {
      all.push_back({CollectiveKind::reduce_scatter, partial.axis, -1, j, partial.reduce, after});
    });
  }
  for (size_t i = 0; i < at.dims.size(); ++i) {
    const auto& axes = at.dims[i].axes;
    if (axes.empty() || is_prefix(axes, to.dims[i].axes)) continue;
    const AxisId axis = axes.back();
    Placement without = at;
    without.dims[i].axes.pop_back();
    all.push_back({CollectiveKind::all_gather, axis, static_cast<int>(i), -1, Reduce::sum, without});
    attach(without, axis, [&](int j, const Placement& after) {
      if (j != static_cast<int>(i))
        all.push_back({CollectiveKind::all_to_all, axis, static_cast<int>(i), j, Reduce::sum, after});
    });
  }
  for (AxisId axis = 0; axis != mesh.axes.size(); ++axis)
    if (!at.uses(axis))
      attach(at, axis, [&](int j, const Placement& after) {
        all.push_back({CollectiveKind::slice, axis, -1, j, Reduce::sum, after});
      });
  return all;
}

/// Joins `move` to `last` where one collective over both axes does the same.
bool joins(const ReshardStep& last, const Move& move) {
  if (last.kind != move.kind || last.from_dim != move.from_dim || last.to_dim != move.to_dim ||
      last.reduce != move.reduce)
    return false;
  return move.kind != CollectiveKind::all_to_all;
}

}  // namespace

const std::optional<ReshardPath>& ReshardPlanner::plan(const ValueType& type, const Placement& from,
                                                       const Placement& to) {
  const auto key = std::make_pair(type.element, Key{type.dims, {from, to}});
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  std::optional<ReshardPath> path = to.has_margins() ? with_margins(type, from, to) : search(type, from, to);
  return known_[key] = std::move(path);
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
    // Whole slabs of what is held in the end: a row of the dim is everything else, with its margins.
    Placement row = to;
    row.dims[i] = {};
    ValueType others = type;
    others.dims.erase(others.dims.begin() + static_cast<std::ptrdiff_t>(i));
    row.dims.erase(row.dims.begin() + static_cast<std::ptrdiff_t>(i));
    const int64_t rows = margin_rows(graph_.dim(type.dims[i]).size, mesh_.size(dim.axes), dim.margin);
    ReshardStep step{
        CollectiveKind::permute, dim.axes, static_cast<int>(i), static_cast<int>(i), Reduce::sum, 0, 0, {}, {}};
    step.bytes =
        rows * local_elements(graph_, mesh_, others, row) * static_cast<int64_t>(meshrt::size_of(type.element));
    step.seconds = collective_seconds(machine_, mesh_, dim.axes, step.kind, step.bytes);
    path->seconds += step.seconds;
    path->steps.push_back(std::move(step));
    path->placements.push_back(at);
  }
  return path;
}

std::optional<ReshardPath> ReshardPlanner::search(const ValueType& type, const Placement& from,
                                                  const Placement& to) const {
  for (const Partial& partial : to.partial)
    if (!has_partial(from, partial.axis)) return std::nullopt;
  const auto bytes = [&](const Placement& p) {
    return local_elements(graph_, mesh_, type, p) * static_cast<int64_t>(meshrt::size_of(type.element));
  };
  // S of a collective: what the group holds together, before a scatter or after a gather.
  const auto volume = [&](CollectiveKind kind, const Placement& before, const Placement& after) {
    return kind == CollectiveKind::all_gather ? bytes(after) : bytes(before);
  };
  struct State {
    double seconds;
    int moves;
    Placement placement;
    bool operator>(const State& o) const {
      return std::tie(seconds, moves, placement) > std::tie(o.seconds, o.moves, o.placement);
    }
  };
  std::map<Placement, std::pair<double, std::pair<Placement, Move>>> best;  // seconds, and how it was reached
  std::priority_queue<State, std::vector<State>, std::greater<>> open;
  best[from] = {0, {}};
  open.push({0, 0, from});
  while (!open.empty()) {
    const State state = open.top();
    open.pop();
    if (state.placement == to) break;
    if (state.seconds > best[state.placement].first) continue;
    for (const Move& move : moves(mesh_, state.placement, to)) {
      const double seconds =
          state.seconds + 1e-12 +
          collective_seconds(machine_, mesh_, {move.axis}, move.kind, volume(move.kind, state.placement, move.after));
      const auto known = best.find(move.after);
      if (known != best.end() && known->second.first <= seconds) continue;
      best[move.after] = {seconds, {state.placement, move}};
      open.push({seconds, state.moves + 1, move.after});
    }
  }
  if (!best.count(to)) return std::nullopt;
  std::vector<Move> way;
  for (Placement at = to; at != from;) {
    const auto& [before, move] = best[at].second;
    way.push_back(move);
    at = before;
  }
  std::reverse(way.begin(), way.end());

  ReshardPath path;
  Placement before = from;
  std::vector<Placement> begins;
  for (const Move& move : way) {
    if (!path.steps.empty() && joins(path.steps.back(), move)) {
      // Gathers take minor axes first; a group lists its axes major first.
      auto& axes = path.steps.back().axes;
      axes.insert(move.kind == CollectiveKind::all_gather ? axes.begin() : axes.end(), move.axis);
      path.placements.back() = move.after;
    } else {
      path.steps.push_back({move.kind, {move.axis}, move.from_dim, move.to_dim, move.reduce, 0, 0, {}, {}});
      path.placements.push_back(move.after);
      begins.push_back(before);
    }
    before = move.after;
  }
  for (size_t i = 0; i < path.steps.size(); ++i) {
    ReshardStep& step = path.steps[i];
    const int64_t size = volume(step.kind, begins[i], path.placements[i]);
    step.bytes = collective_bytes(step.kind, mesh_.size(step.axes), size);
    step.seconds = collective_seconds(machine_, mesh_, step.axes, step.kind, size);
    path.seconds += step.seconds;
  }
  return path;
}

}  // namespace mesh
