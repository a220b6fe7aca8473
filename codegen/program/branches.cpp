#include "codegen/program/branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/program/walk.h"

namespace mesh {

bool enters(const MeshShape& mesh, const BranchStep& branch, int64_t rank) {
  return std::ranges::all_of(branch.at, [&](const Where& where) {
    return std::ranges::find(where.coordinates, index_over(mesh, {where.axis}, rank)) != where.coordinates.end();
  });
}

std::string to_string(const MeshShape& mesh, const BranchStep& branch) {
  std::vector<std::string> axes;
  for (const Where& where : branch.at)
    axes.push_back(fmt::format("{} {}", mesh.axes[where.axis].name, fmt::join(where.coordinates, " or ")));
  return fmt::format("{}", fmt::join(axes, ", "));
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

RankClasses::RankClasses(const Program& program) : mesh_(program.sharded.layout.mesh), representatives_{0} {
  std::set<AxisId> axes;  // that any branch asks for
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      if (const auto* branch = std::get_if<BranchStep>(&step.what))
        for (const Where& where : branch->at) axes.insert(where.axis);
    });
  for (const AxisId axis : axes) {
    const size_t known = representatives_.size();
    for (int64_t coordinate = 1; coordinate < mesh_.axes[axis].size; ++coordinate)
      for (size_t i = 0; i < known; ++i)
        representatives_.push_back(representatives_[i] + coordinate * mesh_.axes[axis].stride);
  }
}

RankSet RankClasses::entering(const Step& step, const RankSet& in) const {
  const auto* branch = std::get_if<BranchStep>(&step.what);
  if (!branch) return in;
  RankSet result = in;
  for (size_t i = 0; i < result.size(); ++i) result[i] = in[i] && enters(mesh_, *branch, representatives_[i]);
  return result;
}

}  // namespace mesh
