#include "codegen/program/branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"

namespace mesh {

bool may_enter(const MeshShape& mesh, const BranchStep& branch, int64_t rank) {
  return std::ranges::all_of(branch.at, [&](const Where& where) {
    return where.owner ||
           std::ranges::find(where.coordinates, mesh.coordinate(rank, where.axis)) != where.coordinates.end();
  });
}

std::string to_string(const Program& program, const BranchStep& branch) {
  std::vector<std::string> axes;
  for (const Where& where : branch.at)
    axes.push_back(to_string(program.sharded.graph, program.sharded.layout.mesh, where));
  if (branch.stage) axes.push_back(fmt::format("stage {} of its own", branch.stage->number));
  return fmt::format("{}", fmt::join(axes, ", "));
}

std::optional<int64_t> neighbour(const MeshShape& mesh, const MessageStep& message, int64_t rank) {
  const MeshAxis& axis = mesh.axes[message.axis];
  const int64_t step = message.down == message.sends ? -1 : 1;
  const auto here = static_cast<int32_t>(mesh.coordinate(rank, message.axis));
  if (!message.among.has(here) || !message.among.has(here + static_cast<int32_t>(step))) return {};
  return rank + step * axis.stride;
}

int64_t turns_of(const Program& program, const Where& where) {
  return where.owner ? program.sharded.graph.dim(where.owner.dim).size : 1;
}

RankSet intersection(const RankSet& a, const RankSet& b) {
  RankSet result = a;
  for (size_t i = 0; i < a.size(); ++i) result[i] = a[i] && b[i];
  return result;
}

bool intersect(const RankSet& a, const RankSet& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] && b[i]) return true;
  return false;
}

bool includes(const RankSet& all, const RankSet& part) {
  for (size_t i = 0; i < all.size(); ++i)
    if (part[i] && !all[i]) return false;
  return true;
}

void unite(RankSet& into, const RankSet& other) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = into[i] || other[i];
}

RankClasses::RankClasses(const Program& program) : RankClasses(program, {}) {}

RankClasses RankClasses::of_single_ranks(const Program& program, size_t most) {
  std::set<AxisId> all;
  for (size_t i = 0; i < program.sharded.layout.mesh.axes.size(); ++i) all.insert(static_cast<AxisId>(i));
  if (static_cast<size_t>(program.sharded.layout.mesh.ranks()) <= most)
    if (RankClasses single(program, std::move(all)); single.count() <= most) return single;
  return RankClasses(program);
}

RankClasses::RankClasses(const Program& program, std::set<AxisId> axes) : program_(program), classes_{{0, {}}} {
  std::set<Where> turns;
  const auto ask = [&](const Where& where) {
    if (where.owner) turns.insert(where);
    else axes.insert(where.axis);
  };
  for (const Stored& stored : program.sharded.graph.stored)
    for (const Where& where : program.sharded.placement(stored.value).at) ask(where);
  const AxisId stages = program.sharded.layout.pipeline.axis;
  for (const Buffer& buffer : program.buffers)
    for (const LocalDim& local : buffer.dims)
      if (lies_by_stages(local.placement)) axes.insert(stages);
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      if (const auto* branch = std::get_if<BranchStep>(&step.what))
        for (const Where& where : branch->at) ask(where);
      if (const auto* message = std::get_if<MessageStep>(&step.what)) axes.insert(message->axis);
      const auto* loop = std::get_if<ForStep>(&step.what);
      if (loop && loop->own && contains(loop->own->axes, stages)) axes.insert(stages);
      for (const CollectiveStep& one : movements(step))
        if (one.kind == CollectiveKind::broadcast || one.kind == CollectiveKind::reduce) ask(one.at);
    });
  axes_.assign(axes.begin(), axes.end());
  turns_.assign(turns.begin(), turns.end());
  const MeshShape& mesh = program.sharded.layout.mesh;
  for (const AxisId axis : axes_) {
    const size_t known = classes_.size();
    for (int64_t coordinate = 1; coordinate < mesh.axes[axis].size; ++coordinate)
      for (size_t i = 0; i < known; ++i)
        classes_.push_back({classes_[i].rank + coordinate * mesh.axes[axis].stride, {}});
  }
  for (size_t k = 0; k < turns_.size(); ++k) {
    const size_t known = classes_.size();
    for (size_t i = 0; i < known; ++i) {
      classes_.push_back(classes_[i]);
      classes_[i].turn.push_back(false);
      classes_.back().turn.push_back(true);
    }
  }
}

RankSet RankClasses::at(const Where& where) const {
  RankSet result(count());
  const size_t k = static_cast<size_t>(std::ranges::find(turns_, where) - turns_.begin());
  for (size_t i = 0; i < count(); ++i)
    result[i] = where.owner ? classes_[i].turn[k]
                            : std::ranges::count(where.coordinates, program_.sharded.layout.mesh.coordinate(
                                                                        classes_[i].rank, where.axis)) > 0;
  return result;
}

RankSet RankClasses::entering(const Step& step, const RankSet& in) const {
  if (const auto* loop = std::get_if<ForStep>(&step.what); loop && loop->own)
    return intersection(in, with_turns(loop->dim, *loop->own));
  const auto* branch = std::get_if<BranchStep>(&step.what);
  if (!branch) return in;
  RankSet result = in;
  for (const Where& where : branch->at) result = intersection(result, at(where));
  return result;
}

bool RankClasses::lies_by_stages(const DimPlacement& lies) const {
  const Pipeline& pipeline = program_.sharded.layout.pipeline;
  return pipeline && lies.axes == std::vector{pipeline.axis};
}

RankSet RankClasses::with_turns(DimId dim, const DimPlacement& lies) const {
  const Layout& layout = program_.sharded.layout;
  RankSet result = all();
  if (!lies_by_stages(lies)) return result;
  const int64_t turns = program_.sharded.graph.dim(dim).size;
  for (size_t i = 0; i < count(); ++i)
    result[i] = owned_positions(layout.mesh, turns, lies, classes_[i].rank).size() > 0;
  return result;
}

RankSet RankClasses::holding(BufferId buffer) const {
  RankSet result = all();
  if (const StoredId stored = program_.buffer(buffer).stored)
    for (const Where& where : program_.sharded.placement(program_.sharded.graph.stored[stored.index].value).at)
      result = intersection(result, at(where));
  for (const LocalDim& local : program_.buffer(buffer).dims)
    result = intersection(result, with_turns(local.dim, local.placement));
  return result;
}

RankSet RankClasses::touching(const Step& step, const Access& access, Use use, const RankSet& in) const {
  RankSet result = in;
  const auto* message = std::get_if<MessageStep>(&step.what);
  if (message && !program_.sharded.layout.pipeline.has_chunks())  // of several stages a rank has one with a neighbour
    for (size_t i = 0; i < count(); ++i)
      result[i] = result[i] && neighbour(program_.sharded.layout.mesh, *message, classes_[i].rank);
  for (const CollectiveStep& one : movements(step))
    if ((one.kind == CollectiveKind::broadcast && use == Use::read && access == one.from) ||
        (one.kind == CollectiveKind::reduce && use == Use::write && access == one.to))
      result = intersection(result, at(one.at));
  const std::vector<LocalDim>& dims = program_.buffer(access.buffer).dims;
  result = intersection(result, holding(access.buffer));
  for (const FixedDim& fixed : fixed_dims(access))
    for (const Where& where : owners_of_turn(dims[fixed.position].dim, dims[fixed.position].placement)) {
      const auto of = static_cast<size_t>(std::ranges::find(turns_, where) - turns_.begin());
      RankSet sooner_or_later = result;
      for (size_t i = 0; i < count(); ++i)
        for (size_t j = 0; j < count(); ++j) {
          Class same = classes_[j];
          if (of < same.turn.size()) same.turn[of] = classes_[i].turn[of];
          if (result[j] && same.rank == classes_[i].rank && same.turn == classes_[i].turn) sooner_or_later[i] = true;
        }
      result = sooner_or_later;
    }
  return result;
}

}  // namespace mesh
