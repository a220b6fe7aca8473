// collectives.cpp: collectives bound to one rank: the group, where the parts of a split dim begin, counts.
#include "meshrt/collectives.h"

#include <algorithm>
#include <memory>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"
#include "meshrt/redeal.h"

namespace mesh {

namespace {

struct Bound {
  Binding& binding;
  const CollectiveStep& step;
  const meshrt::Group& group;
  meshrt::Site site;
  Type type;
  Pointer from, to;
  meshrt::Ticket* ticket;
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

Action all_reduce(const Bound& bound) {
  if (bound.step.from != bound.step.to) fault(bound.binding, bound.step, "it is not in place");
  const int64_t count = extents(bound.binding, bound.step.before, 0, bound.step.before.size());
  if (bound.ticket)
    return [bound, count] {
      *bound.ticket = meshrt::all_reduce_start(bound.binding.rank, bound.group, bound.site, bound.to.at(bound.binding),
                                               count, bound.type, bound.step.reduce);
    };
  return [bound, count] {
    meshrt::all_reduce(bound.binding.rank, bound.group, bound.site, bound.to.at(bound.binding), count, bound.type,
                       bound.step.reduce);
  };
}

Action reduce_scatter(const Bound& bound) {
  const size_t dim = checked(bound.binding, bound.step, bound.step.to_dim);
  const Split split = split_of(bound, dim, bound.step.before[dim], bound.step.after[dim]);
  if (bound.ticket)
    return [bound, split] {
      *bound.ticket =
          meshrt::reduce_scatter_start(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                                       bound.to.at(bound.binding), split.blocks(), bound.type, bound.step.reduce);
    };
  return [bound, split] {
    meshrt::reduce_scatter(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                           bound.to.at(bound.binding), split.blocks(), bound.type, bound.step.reduce);
  };
}

Action all_gather(const Bound& bound) {
  const size_t dim = checked(bound.binding, bound.step, bound.step.from_dim);
  const Split split = split_of(bound, dim, bound.step.after[dim], bound.step.before[dim]);
  if (bound.ticket)
    return [bound, split] {
      *bound.ticket =
          meshrt::all_gather_start(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                                   bound.to.at(bound.binding), split.blocks(), bound.type);
    };
  return [bound, split] {
    meshrt::all_gather(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                       bound.to.at(bound.binding), split.blocks(), bound.type);
  };
}

// From one member to all, or from all to one.
Action at_one(const Bound& bound) {
  const int64_t count = extents(bound.binding, bound.step.before, 0, bound.step.before.size());
  return [bound, count, root = coordinate_of(bound.binding, bound.step.at)] {
    const auto one = static_cast<int>(root());
    const std::byte* from = bound.from.at(bound.binding);
    std::byte* to = bound.to.at(bound.binding);
    if (bound.step.kind == CollectiveKind::broadcast)
      meshrt::broadcast(bound.binding.rank, bound.group, bound.site, from, to, count, bound.type, one);
    else
      meshrt::reduce(bound.binding.rank, bound.group, bound.site, from, to, count, bound.type, bound.step.reduce, one);
  };
}

Action all_to_all(const Bound& bound) {
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
    meshrt::all_to_all(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding),
                       bound.to.at(bound.binding), exchange, bound.type);
  };
}

// The margins of a dim, in place; without axes the rank holds the dim whole.
Action margins(const Binding& binding, const CollectiveStep& step, const meshrt::Group* group, meshrt::Site site) {
  const size_t dim = checked(binding, step, step.from_dim);
  const LocalDim own = without_margin(step.before[dim]);
  const Margin& margin = step.before[dim].placement.margin;
  const meshrt::Margins sizes{extents(binding, step.before, 0, dim),
                              extents(binding, step.before, dim + 1, step.before.size()), margin.before, margin.after,
                              margin.edge};
  const Pointer data(binding, step.to);
  const Type type = binding.buffer(step.to).type;
  if (group == nullptr)
    return [&binding, data, size = binding.extent(own), sizes, type] {
      meshrt::fill_margins(data.at(binding), size, sizes, type);
    };
  std::vector<int64_t> begin{0};
  for (const int member : group->members) begin.push_back(local_range(binding.program, own, member).end);
  return [&binding, group, site, data, begin, sizes, type] {
    meshrt::exchange_margins(binding.rank, *group, site, data.at(binding), begin, sizes, type);
  };
}

// A dim is dealt otherwise; without axes the rank holds it whole, in another order.
Action redeal(Binding& binding, const CollectiveStep& step, const meshrt::Group* group, meshrt::Site site) {
  const size_t dim = checked(binding, step, step.from_dim);
  const Deal &before = step.before[dim].placement.deal, &after = step.after[dim].placement.deal;
  const int64_t size = binding.program.sharded.graph.dim(step.before[dim].dim).size;
  const int64_t outer = extents(binding, step.before, 0, dim),
                inner = extents(binding, step.before, dim + 1, step.before.size());
  const Pointer from(binding, step.from), to(binding, step.to);
  const Type type = binding.buffer(step.to).type;
  if (group == nullptr)
    return [=, &binding, plan = meshrt::Redeal(size, before, after)] {
      meshrt::reorder(from.at(binding), to.at(binding), plan, outer, inner, type);
    };
  return [=, &binding, plan = meshrt::Redeal(*group, size, before, after)] {
    meshrt::redeal(binding.rank, *group, site, from.at(binding), to.at(binding), plan, outer, inner, type);
  };
}

// Parts change owners: everybody sends the part it holds to the member that needs it.
Action permute(const Bound& bound) {
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
    meshrt::permute(bound.binding.rank, bound.group, bound.site, bound.from.at(bound.binding), sent, partners.to,
                    bound.to.at(bound.binding), received, partners.from, bound.type);
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

}  // namespace

Action bind_step(Binding& binding, const CombinedStep& step) {
  struct Value {
    Bound bound;
    Split split;
  };
  const CollectiveStep& first = step.collectives.front();
  const bool gathers = first.kind == CollectiveKind::all_gather, sums = first.kind == CollectiveKind::all_reduce;
  std::vector<Value> values;
  for (const CollectiveStep& one : step.collectives) {
    check(binding, one);
    const meshrt::Site site{static_cast<int32_t>(first.step), binding.buffer(first.from).name.c_str()};
    const Bound bound{binding,
                      one,
                      group_of(binding, one.axes),
                      site,
                      binding.buffer(one.from).type,
                      Pointer(binding, one.from),
                      Pointer(binding, one.to),
                      nullptr};
    if (sums) {
      values.push_back({bound, {{}, extents(binding, one.before, 0, one.before.size()), 1}});
      continue;
    }
    const size_t dim = checked(binding, one, gathers ? one.from_dim : one.to_dim);
    const auto &whole = gathers ? one.after : one.before, &part = gathers ? one.before : one.after;
    values.push_back({bound, split_of(bound, dim, whole[dim], part[dim])});
  }
  if (sums)
    return [values, wholes = std::vector<meshrt::Whole>(values.size())]() mutable {
      for (size_t i = 0; i < values.size(); ++i)
        wholes[i] = {values[i].bound.to.at(values[i].bound.binding), values[i].split.outer};
      const Bound& bound = values.front().bound;
      meshrt::all_reduce(bound.binding.rank, bound.group, bound.site, wholes, bound.type, bound.step.reduce);
    };
  if (gathers)
    return [values, gathered = std::vector<meshrt::Gathered>(values.size())]() mutable {
      for (size_t i = 0; i < values.size(); ++i) {
        const Bound& bound = values[i].bound;
        gathered[i] = {bound.from.at(bound.binding), bound.to.at(bound.binding), values[i].split.blocks()};
      }
      const Bound& bound = values.front().bound;
      meshrt::all_gather(bound.binding.rank, bound.group, bound.site, gathered, bound.type);
    };
  if (first.kind != CollectiveKind::reduce_scatter) fault(binding, first, "it cannot be made with others");
  return [values, scattered = std::vector<meshrt::Scattered>(values.size())]() mutable {
    for (size_t i = 0; i < values.size(); ++i) {
      const Bound& bound = values[i].bound;
      scattered[i] = {bound.from.at(bound.binding), bound.to.at(bound.binding), values[i].split.blocks()};
    }
    const Bound& bound = values.front().bound;
    meshrt::reduce_scatter(bound.binding.rank, bound.group, bound.site, scattered, bound.type, bound.step.reduce);
  };
}

Action bind_step(Binding& binding, const CollectiveStep& step) {
  check(binding, step);
  const Buffer& from = binding.buffer(step.from);
  using Phase = CollectiveStep::Phase;
  if (step.phase == Phase::wait) {
    meshrt::Ticket* const ticket = &binding.tickets.at(step.step);
    return [&binding, ticket] { meshrt::wait(binding.rank, *ticket); };
  }
  const bool starts = step.phase == Phase::start;
  if (step.kind == CollectiveKind::halo) {
    if (starts || step.from != step.to) fault(binding, step, "margins are filled at once and in place");
    return margins(binding, step, step.axes.empty() ? nullptr : &group_of(binding, step.axes),
                   {static_cast<int32_t>(step.step), from.name.c_str()});
  }
  const meshrt::Site site{static_cast<int32_t>(step.step), from.name.c_str()};
  if (step.kind == CollectiveKind::redeal) {
    if (starts) fault(binding, step, "it cannot be started and waited for separately");
    return redeal(binding, step, step.axes.empty() ? nullptr : &group_of(binding, step.axes), site);
  }
  const Bound bound{binding,
                    step,
                    group_of(binding, step.axes),
                    site,
                    from.type,
                    Pointer(binding, step.from),
                    Pointer(binding, step.to),
                    starts ? &binding.tickets[step.step] : nullptr};
  const auto whole_only = [&] {
    if (starts) fault(binding, step, "it cannot be started and waited for separately");
  };
  switch (step.kind) {
    case CollectiveKind::all_reduce: return all_reduce(bound);
    case CollectiveKind::reduce_scatter: return reduce_scatter(bound);
    case CollectiveKind::all_gather: return all_gather(bound);
    case CollectiveKind::all_to_all: whole_only(); return all_to_all(bound);
    case CollectiveKind::permute: whole_only(); return permute(bound);
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: whole_only(); return at_one(bound);
    case CollectiveKind::redeal:
    case CollectiveKind::halo:
    case CollectiveKind::slice: break;
  }
  fault(binding, step, "the interpreter has no such collective");
}

}  // namespace mesh
