// collectives.cpp: collectives bound to one rank: the group, where the parts of a split dim begin, counts.
#include <algorithm>
#include <functional>
#include <memory>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"
#include "codegen/layout/redistribution.h"
#include "meshrt/plan.h"

namespace mesh {

using Phase = CollectiveStep::Phase;

/// A collective with a plan for each turn of the loops by which its buffers are indexed.
class PlannedCall {
 public:
  /// `make` gives the plan of the turns under way; it, and what it holds, stays as long as the plans.
  PlannedCall(Binding& binding, std::span<const CollectiveStep> call, std::function<meshrt::Plan()> make)
      : binding_(binding), make_(std::move(make)) {
    for (const CollectiveStep& one : call) {
      for (const Access* access : {&one.from, &one.to})
        for (const TurnIndex& turn : access->turns) add_loop(turn.loop);
      if (one.at.owner) add_loop(binding.loops.at(one.at.owner.dim));
    }
    plan_turns(0);
  }
  meshrt::Plan& now() {
    size_t at = 0;
    for (const uint32_t loop : loops_) at = at * binding_.loop_extent[loop] + binding_.turns[loop];
    return plans_[at];
  }

 private:
  void add_loop(LoopId loop) {
    if (loop && std::ranges::find(loops_, loop.index) == loops_.end()) loops_.push_back(loop.index);
  }
  void plan_turns(size_t depth) {
    if (depth == loops_.size()) return plans_.push_back(make_());
    int64_t& turn = binding_.turns[loops_[depth]];
    for (turn = 0; turn < binding_.loop_extent[loops_[depth]]; ++turn) plan_turns(depth + 1);
    turn = 0;
  }

  Binding& binding_;
  std::function<meshrt::Plan()> make_;
  std::vector<uint32_t> loops_;
  std::vector<meshrt::Plan> plans_;
};

namespace {

using MakePlan = std::function<meshrt::Plan()>;

struct Bound {
  Binding& binding;
  const CollectiveStep& step;
  const meshrt::Group& group;
  meshrt::Site site;
  Type type;
  Pointer from, to;
};

[[noreturn]] void fault(const Binding& binding, const CollectiveStep& step, const std::string& what) {
  internal_error(std::string(name_of(step.kind)) + " of " + binding.buffer(step.from).name + ": " + what);
}

int64_t extents(const Binding& binding, const std::vector<LocalDim>& dims, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= binding.extent(dims[i]);
  return product;
}

size_t checked(const Binding& binding, const CollectiveStep& step, int dim) {
  if (dim < 0 || static_cast<size_t>(dim) >= step.before.size()) fault(binding, step, "the dim it moves is not there");
  return static_cast<size_t>(dim);
}

// Where the members' parts of a dim begin, and the last ends: together exactly what a member holds of `whole`.
std::vector<int64_t> boundaries(const Bound& bound, const LocalDim& whole, const LocalDim& part) {
  const Range all = bound.binding.range(whole);
  std::vector<int64_t> begin{all.begin};
  for (const int member : bound.group.members) {
    const Range range = local_range(bound.binding.program, part, member);
    if (range.begin != begin.back())
      fault(bound.binding, bound.step, "the group's parts of " + bound.binding.name(part.dim) + " do not join up");
    begin.push_back(range.end);
  }
  if (begin.back() != all.end)
    fault(bound.binding, bound.step, "the group's parts of " + bound.binding.name(part.dim) + " do not make it whole");
  return begin;
}

// A value of which one dim is split on one side.
struct Split {
  std::vector<int64_t> begin;
  int64_t outer, inner;
  meshrt::Blocks blocks() const { return {outer, begin, inner}; }
};
Split split_of(const Bound& bound, size_t dim, const LocalDim& whole, const LocalDim& part) {
  const std::vector<LocalDim>& dims = bound.step.before;
  return {boundaries(bound, whole, part), extents(bound.binding, dims, 0, dim),
          extents(bound.binding, dims, dim + 1, dims.size())};
}

MakePlan all_reduce(const Bound& bound) {
  if (bound.step.from != bound.step.to) fault(bound.binding, bound.step, "it is not in place");
  const int64_t count = extents(bound.binding, bound.step.before, 0, bound.step.before.size());
  return [bound, count] {
    return meshrt::plan_all_reduce(bound.binding.rank, bound.group, bound.site, bound.to.at(bound.binding), count,
                                   bound.type, bound.step.reduce);
  };
}

MakePlan reduce_scatter(const Bound& bound) {
  const size_t dim = checked(bound.binding, bound.step, bound.step.to_dim);
  const Split split = split_of(bound, dim, bound.step.before[dim], bound.step.after[dim]);
  return [bound, split] {
    return meshrt::plan_reduce_scatter(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                                       bound.to.at(bound.binding), split.blocks(), bound.type, bound.step.reduce);
  };
}

MakePlan all_gather(const Bound& bound) {
  const size_t dim = checked(bound.binding, bound.step, bound.step.from_dim);
  const Split split = split_of(bound, dim, bound.step.after[dim], bound.step.before[dim]);
  return [bound, split] {
    return meshrt::plan_all_gather(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                                   bound.to.at(bound.binding), split.blocks(), bound.type);
  };
}

// From one member to all, or from all to one.
MakePlan at_one(const Bound& bound) {
  const int64_t count = extents(bound.binding, bound.step.before, 0, bound.step.before.size());
  return [bound, count, root = coordinate_of(bound.binding, bound.step.at)] {
    const auto one = static_cast<int>(root());
    const std::byte* from = bound.from.at(bound.binding);
    std::byte* to = bound.to.at(bound.binding);
    if (bound.step.kind == CollectiveKind::broadcast)
      return meshrt::plan_broadcast(bound.binding.rank, bound.group, bound.site, from, to, count, bound.type, one);
    return meshrt::plan_reduce(bound.binding.rank, bound.group, bound.site, from, to, count, bound.type,
                               bound.step.reduce, one);
  };
}

MakePlan all_to_all(const Bound& bound) {
  const CollectiveStep& step = bound.step;
  const size_t gathered = checked(bound.binding, step, step.from_dim),
               split = checked(bound.binding, step, step.to_dim);
  if (gathered == split) fault(bound.binding, step, "it gathers the dim that it splits");
  const std::vector<int64_t> parts = boundaries(bound, step.after[gathered], step.before[gathered]);
  const std::vector<int64_t> new_parts = boundaries(bound, step.before[split], step.after[split]);
  const bool gathers_first = gathered < split;
  const size_t first = std::min(gathered, split), second = std::max(gathered, split);
  const int64_t outer = extents(bound.binding, step.before, 0, first);
  const int64_t middle = extents(bound.binding, step.before, first + 1, second);
  const int64_t inner = extents(bound.binding, step.before, second + 1, step.before.size());
  return [=] {
    const meshrt::Exchange exchange{
        outer, gathers_first ? parts : new_parts, middle, gathers_first ? new_parts : parts, inner, gathers_first};
    return meshrt::plan_all_to_all(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                                   bound.to.at(bound.binding), exchange, bound.type);
  };
}

struct MarginsOf {
  LocalDim own;
  meshrt::Margins sizes;
};
MarginsOf margins_of(const Binding& binding, const CollectiveStep& step) {
  if (step.from != step.to) fault(binding, step, "margins are filled in place");
  const size_t dim = checked(binding, step, step.from_dim);
  const Margin& margin = step.before[dim].placement.margin;
  return {without_margin(step.before[dim]),
          {extents(binding, step.before, 0, dim), extents(binding, step.before, dim + 1, step.before.size()),
           margin.before, margin.after, margin.edge}};
}

MakePlan margins(const Bound& bound) {
  const MarginsOf of = margins_of(bound.binding, bound.step);
  std::vector<int64_t> begin{0};
  for (const int member : bound.group.members) begin.push_back(local_range(bound.binding.program, of.own, member).end);
  return [bound, begin, sizes = of.sizes] {
    return meshrt::plan_exchange_margins(bound.binding.rank, bound.group, bound.site, bound.to.at(bound.binding), begin,
                                         sizes, bound.type);
  };
}

meshrt::Redistribution redistribution_of(Binding& binding, const CollectiveStep& step) {
  std::vector<meshrt::MovedDim> dims;
  for (size_t i = 0; i < step.before.size(); ++i)
    dims.push_back(moved_dim(binding.mesh(), binding.program.sharded.graph.dim(step.before[i].dim).size,
                             binding.extent(step.before[i]), step.before[i].placement, step.after[i].placement));
  return meshrt::Redistribution(group_of(binding, step.axes), dims);
}

MakePlan redistribute(const Bound& bound) {
  return [bound, moved = redistribution_of(bound.binding, bound.step)] {
    return meshrt::plan_redistribute(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                                     bound.to.at(bound.binding), moved, bound.type);
  };
}

// What a rank does by itself, as it holds all of the dim.
Task own_action(Binding& binding, const CollectiveStep& step) {
  const Pointer from(binding, step.from), to(binding, step.to);
  const Type type = binding.buffer(step.to).type;
  if (step.kind == CollectiveKind::redistribute)
    return [=, &binding, moved = redistribution_of(binding, step)] {
      meshrt::reorder(from.at(binding), to.at(binding), moved, type);
    };
  if (step.kind != CollectiveKind::halo) fault(binding, step, "it is over no axes");
  const MarginsOf of = margins_of(binding, step);
  return [&binding, to, size = binding.extent(of.own), sizes = of.sizes, type] {
    meshrt::fill_margins(to.at(binding), size, sizes, type);
  };
}

// Parts change owners: everybody sends the part it holds to the member that needs it.
MakePlan permute(const Bound& bound) {
  const CollectiveStep& step = bound.step;
  const Program& program = bound.binding.program;
  const auto held = [&](const std::vector<LocalDim>& dims, int rank) {
    std::vector<Range> ranges;
    ranges.reserve(dims.size());
    for (const LocalDim& dim : dims) ranges.push_back(local_range(program, dim, rank));
    return ranges;
  };
  const meshrt::Partners partners = meshrt::partners(bound.group, axes_of(bound.binding, step.to_axes));
  const int sender = bound.group.members[static_cast<size_t>(partners.from)];
  if (held(step.before, sender) != held(step.after, bound.binding.rank.rank()))
    fault(bound.binding, step, "the member that sends holds another part than is needed");
  const int64_t sent = extents(bound.binding, step.before, 0, step.before.size());
  const int64_t received = extents(bound.binding, step.after, 0, step.after.size());
  return [=] {
    return meshrt::plan_permute(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding), sent,
                                partners.to, bound.to.at(bound.binding), received, partners.from, bound.type);
  };
}

void check(const Binding& binding, const CollectiveStep& step) {
  const Buffer &from = binding.buffer(step.from), &to = binding.buffer(step.to);
  if (from.type != to.type) fault(binding, step, "it changes the type");
  if (step.before.size() != step.after.size() ||
      !std::ranges::equal(step.before, step.after, {}, &LocalDim::dim, &LocalDim::dim))
    fault(binding, step, "it changes the order of dims in memory");
  if (!std::ranges::equal(step.before, dims_of(binding.program, step.from)) ||
      !std::ranges::equal(step.after, dims_of(binding.program, step.to)))
    fault(binding, step, "its dims are not those of its buffers");
}

Bound bound_to(Binding& binding, const CollectiveStep& step, meshrt::Site site) {
  check(binding, step);
  return {binding,
          step,
          group_of(binding, step.axes, makers(step.kind, step.at)),
          site,
          binding.buffer(step.from).type,
          Pointer(binding, step.from),
          Pointer(binding, step.to)};
}

// Known in failures by the first of its values.
meshrt::Site site_of(const Binding& binding, const CollectiveStep& first) {
  return {static_cast<int32_t>(first.step), binding.buffer(first.from).name.c_str()};
}

MakePlan maker(Binding& binding, const CollectiveStep& step) {
  const Bound bound = bound_to(binding, step, site_of(binding, step));
  switch (step.kind) {
    case CollectiveKind::all_reduce: return all_reduce(bound);
    case CollectiveKind::reduce_scatter: return reduce_scatter(bound);
    case CollectiveKind::all_gather: return all_gather(bound);
    case CollectiveKind::all_to_all: return all_to_all(bound);
    case CollectiveKind::permute: return permute(bound);
    case CollectiveKind::redistribute: return redistribute(bound);
    case CollectiveKind::halo: return margins(bound);
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return at_one(bound);
    case CollectiveKind::ring:
    case CollectiveKind::slice:
    case CollectiveKind::term: break;
  }
  fault(binding, step, "the interpreter has no such collective");
}

// Of several values in one call.
MakePlan maker(Binding& binding, const CombinedStep& step) {
  struct Value {
    Bound bound;
    Split split;
    std::byte* from() const { return bound.from.at(bound.binding); }
    std::byte* to() const { return bound.to.at(bound.binding); }
  };
  const CollectiveStep& first = step.collectives.front();
  const bool gathers = first.kind == CollectiveKind::all_gather, sums = first.kind == CollectiveKind::all_reduce;
  std::vector<Value> values;
  for (const CollectiveStep& one : step.collectives) {
    const Bound bound = bound_to(binding, one, site_of(binding, first));
    if (sums) {
      values.push_back({bound, {{}, extents(binding, one.before, 0, one.before.size()), 1}});
      continue;
    }
    const size_t dim = checked(binding, one, gathers ? one.from_dim : one.to_dim);
    const auto &whole = gathers ? one.after : one.before, &part = gathers ? one.before : one.after;
    values.push_back({bound, split_of(bound, dim, whole[dim], part[dim])});
  }
  if (sums)
    return [values] {
      std::vector<meshrt::Whole> all;
      for (const Value& value : values) all.push_back({value.to(), value.split.outer});
      const Bound& bound = values.front().bound;
      return meshrt::plan_all_reduce(bound.binding.rank, bound.group, bound.site, all, bound.type, bound.step.reduce);
    };
  if (gathers)
    return [values] {
      std::vector<meshrt::Gathered> all;
      for (const Value& value : values) all.push_back({value.from(), value.to(), value.split.blocks()});
      const Bound& bound = values.front().bound;
      return meshrt::plan_all_gather(bound.binding.rank, bound.group, bound.site, all, bound.type);
    };
  if (first.kind != CollectiveKind::reduce_scatter) fault(binding, first, "it cannot be made with others");
  return [values] {
    std::vector<meshrt::Scattered> all;
    for (const Value& value : values) all.push_back({value.from(), value.to(), value.split.blocks()});
    const Bound& bound = values.front().bound;
    return meshrt::plan_reduce_scatter(bound.binding.rank, bound.group, bound.site, all, bound.type, bound.step.reduce);
  };
}

template <class Kind>
Task planned(Binding& binding, const Kind& step, std::span<const CollectiveStep> call) {
  const CollectiveStep& first = call.front();
  std::shared_ptr<PlannedCall>& known = binding.calls[{first.step, first.from.buffer, first.to.buffer}];
  if (!known) known = std::make_shared<PlannedCall>(binding, call, maker(binding, step));
  const std::shared_ptr<PlannedCall> made = known;
  if (first.phase == Phase::whole) return [made] { made->now().run(); };
  Task act = [made, starts = first.phase == Phase::start] {
    if (starts) made->now().start();
    else made->now().wait();
  };
  if (first.last_turn) {
    const int64_t &at = binding.turns[first.last_turn.index], turns = binding.loop_extent[first.last_turn.index];
    act = [act, &at, last = turns - 1] {
      if (at == last) act();
    };
  }
  if (!first.other_turn) return act;
  int64_t& turn = binding.turns[first.other_turn->loop.index];
  const int64_t turns = binding.loop_extent[first.other_turn->loop.index];
  return [act, &turn, turns, away = first.other_turn->away] {
    const int64_t own = turn, other = own + away;
    if (other < 0 || other >= turns) return;
    turn = other;
    act();
    turn = own;
  };
}

}  // namespace

Task bind_step(Binding& binding, const CombinedStep& step) { return planned(binding, step, step.collectives); }

Task bind_step(Binding& binding, const CollectiveStep& step) {
  if (step.axes.empty()) {
    check(binding, step);
    return own_action(binding, step);
  }
  return planned(binding, step, {&step, 1});
}

}  // namespace mesh
