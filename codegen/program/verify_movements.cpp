#include <fmt/format.h>

#include <algorithm>

#include "codegen/layout/redistribution.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/print_program.h"
#include "codegen/program/step_messages.h"
#include "codegen/program/verify_steps.h"

namespace mesh {
namespace {

class MovementVerifier : public StepMessages {
 public:
  using StepMessages::StepMessages;

  void operator()(const CollectiveStep& c) {
    if (c.step >= program_.sharded.steps.size()) return say("belongs to no reshard step");
    const ReshardStep& reshard = program_.sharded.steps[c.step];
    if (reshard.kind != c.kind || reshard.axes != c.axes || reshard.to_axes != c.to_axes ||
        reshard.reduce != c.reduce || reshard.at != c.at)
      say("is not the collective that the layout asked for");
    if (!std::ranges::equal(c.before, dims_of(program_, c.from)) ||
        !std::ranges::equal(c.after, dims_of(program_, c.to)))
      say("states other shapes than its buffers have");
    if (program_.buffer(c.from.buffer).type != program_.buffer(c.to.buffer).type) say("changes the element type");
    if (c.axes.empty() && c.phase != CollectiveStep::Phase::whole)
      say("is started, but no other rank takes part in it");
    if (c.other_turn && (c.last_turn || c.phase == CollectiveStep::Phase::whole))
      say("is of another turn, but not by that alone");
    if (c.last_turn && c.phase != CollectiveStep::Phase::start) say("is made in a last turn, but starts nothing there");
    for (const Access& access : {c.from, c.to})
      if (!c.axes.empty() && program_.buffer(storage(program_, access.buffer)).space != Space::arena)
        say(fmt::format("works on {} outside the arena", to_string(program_, access)));
    std::vector<LocalDim> expected = c.before;
    const auto gathers = [&](int at) {
      DimPlacement* dim =
          at >= 0 && at < static_cast<int>(expected.size()) ? &expected[static_cast<size_t>(at)].placement : nullptr;
      if (!dim || dim->axes.size() < c.axes.size() || !std::equal(c.axes.rbegin(), c.axes.rend(), dim->axes.rbegin()))
        return say("gathers axes that the dim is not split over");
      dim->axes.resize(dim->axes.size() - c.axes.size());
      if (dim->axes.empty() && dim->deal.in_order()) dim->deal = {};
    };
    const auto splits = [&](int at) {
      if (at < 0 || at >= static_cast<int>(expected.size())) return say("splits a dim that there is not");
      DimPlacement& dim = expected[static_cast<size_t>(at)].placement;
      if (dim.axes.empty() && !dim.deal && c.after.size() == expected.size()) {
        const Deal& deal = c.after[static_cast<size_t>(at)].placement.deal;
        if (deal.in_order()) dim.deal = deal;
      }
      dim.axes.insert(dim.axes.end(), c.axes.begin(), c.axes.end());
    };
    if (c.kind == CollectiveKind::halo) return margins(c);
    if (c.kind == CollectiveKind::permute) return owners(c);
    if (c.kind == CollectiveKind::redistribute) return redistributes(c);
    if (c.kind == CollectiveKind::broadcast || c.kind == CollectiveKind::reduce)
      if (c.axes != std::vector{c.at.axis} || c.from == c.to || (!c.at.owner && c.at.coordinates.empty()) ||
          (c.kind == CollectiveKind::reduce && c.at.coordinates.size() > 1))
        say("has not one rank at its end");
    if (c.kind == CollectiveKind::all_gather || c.kind == CollectiveKind::all_to_all) gathers(c.from_dim);
    if (c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::all_to_all ||
        c.kind == CollectiveKind::slice)
      splits(c.to_dim);
    if (expected != c.after) say("does not lead to the shape that its result has");
  }

  void operator()(const CombinedStep& c) {
    for (const CollectiveStep& one : c.collectives) {
      (*this)(one);
      const CollectiveStep& first = c.collectives.front();
      if (one.kind != first.kind || one.axes != first.axes || one.at != first.at || one.reduce != first.reduce ||
          one.phase != first.phase || one.other_turn != first.other_turn || one.last_turn != first.last_turn ||
          program_.buffer(one.to.buffer).type != program_.buffer(first.to.buffer).type)
        say("makes other movements in one call");
    }
  }

  void operator()(const MessageStep& m) {
    if (program_.buffer(storage(program_, m.value.buffer)).space != Space::arena)
      say(fmt::format("works on {} outside the arena", to_string(program_, m.value)));
    for (const LocalDim& local : dims_of(program_, m.value))
      if (contains(local.placement.axes, m.axis))
        say(fmt::format("sends a part of {} as if it lay alike", name(local.dim)));
  }

 private:
  void margins(const CollectiveStep& c) {
    if (c.from != c.to) say("does not fill margins in place");
    if (c.from_dim < 0 || c.from_dim >= static_cast<int>(c.before.size()))
      return say("fills margins of a dim that there is not");
    const DimPlacement& dim = c.before[static_cast<size_t>(c.from_dim)].placement;
    if (!dim.margin || dim.axes != c.axes) say("fills other margins than its dim has");
    if (!dim.deal.in_order()) say("fills margins of parts whose neighbours lie elsewhere");
  }

  /// Any parts of the same dims: what moves does so within the group.
  void redistributes(const CollectiveStep& c) {
    if (!std::ranges::equal(c.before, c.after, {}, &LocalDim::dim, &LocalDim::dim))
      return say("changes the order of dims in memory");
    const auto placements = [](const std::vector<LocalDim>& dims) {
      DimPlacements all;
      for (const LocalDim& local : dims) all.push_back(local.placement);
      return all;
    };
    if (moving_axes(placements(c.before), placements(c.after)) != c.axes)
      say("has not the ranks together that its elements move between");
    for (const LocalDim& local : c.before)
      if (local.placement.margin) say(fmt::format("moves {} with its margins", name(local.dim)));
  }

  /// Each member gets the part that it needs from the one that holds it.
  void owners(const CollectiveStep& c) {
    if (!std::ranges::is_permutation(c.axes, c.to_axes)) return say("numbers its parts over other axes than its group");
    const MeshShape& mesh = program_.sharded.layout.mesh;
    const auto rank_of = [&](int64_t index) {
      int64_t rank = 0;
      for (auto axis = c.axes.rbegin(); axis != c.axes.rend(); ++axis) {
        rank += index % mesh.axes[*axis].size * mesh.axes[*axis].stride;
        index /= mesh.axes[*axis].size;
      }
      return rank;
    };
    for (int64_t member = 0; member < mesh.size(c.axes); ++member) {
      const int64_t needs = rank_of(member), holds = rank_of(index_over(mesh, c.to_axes, needs));
      for (size_t i = 0; i < std::min(c.before.size(), c.after.size()); ++i)
        if (c.before[i].dim != c.after[i].dim || c.before[i].placement.deal != c.after[i].placement.deal ||
            local_range(program_, c.before[i], holds) != local_range(program_, c.after[i], needs))
          return say(fmt::format("gives rank {} another part of {} than it needs", needs, name(c.after[i].dim)));
    }
  }
};

template <class Movement>
std::vector<std::string> verified(const Program& program, const Step& step, const Movement& movement) {
  MovementVerifier verifier(program, step);
  verifier(movement);
  return std::move(verifier.messages);
}

}  // namespace

std::vector<std::string> verify_movement(const Program& program, const Step& step, const CollectiveStep& movement) {
  return verified(program, step, movement);
}
std::vector<std::string> verify_movement(const Program& program, const Step& step, const CombinedStep& movement) {
  return verified(program, step, movement);
}
std::vector<std::string> verify_movement(const Program& program, const Step& step, const MessageStep& movement) {
  return verified(program, step, movement);
}

}  // namespace mesh
