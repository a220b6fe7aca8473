#include "tests/program/staged.h"

#include <algorithm>
#include <stdexcept>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/memory.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"

namespace mesh::tests {

namespace {

/// Collectives from begin to end: a step that is dealt is executed by itself.
void without_overlap(Steps& steps) {
  using Phase = CollectiveStep::Phase;
  std::erase_if(steps, [](const Step& step) {
    const auto moved = movements(step);
    return !moved.empty() && moved.front().phase == Phase::wait;
  });
  for (Step& step : steps)
    for (CollectiveStep& one : movements(step)) one.phase = Phase::whole;
}

class Stages {
 public:
  Stages(Program& program, AxisId axis) : program_(program), axis_(axis) {}

  Steps dealt(Steps steps) {
    Steps result;
    for (Step& step : steps) {
      if (auto* loop = std::get_if<ForStep>(&step.what); loop && loops_++ % 2 == 0) {
        loop->body = dealt(std::move(loop->body));
      } else if (can_be_dealt(step)) {
        deal(std::move(step), result);
        continue;
      }
      result.push_back(std::move(step));
    }
    return result;
  }

 private:
  int64_t size() const { return program_.sharded.layout.mesh.axes[axis_].size; }

  void deal(Step step, Steps& result) {
    const std::vector<Access> made = made_by(step);
    turn_ = (turn_ + 1) % size();
    const Part part = part_of(step);
    const std::vector<Span> spans = step.spans;
    const auto add = [&](StepKind what) { result.push_back({std::move(what), part, spans, "", {}}); };
    std::vector<int64_t> others;
    for (int64_t i = 0; i < size(); ++i)
      if (i != turn_) others.push_back(i);
    BranchStep here{{{axis_, {turn_}}}, {}}, elsewhere{{{axis_, others}}, {}};
    here.body.push_back(std::move(step));
    for (const Access& access : made)
      elsewhere.body.push_back({FillStep{access, neutral(Reduce::max)}, part, spans, "", {}});
    add(std::move(here));
    add(std::move(elsewhere));
    for (const Access& access : made) add(largest(access));
  }

  /// What the step writes: whole buffers, or their slots of this turn.
  std::vector<Access> made_by(const Step& step) const {
    std::vector<Access> made;
    for_each_access(step, [&](const Access& access, Use use) {
      if (use == Use::read) return;
      const Access whole{storage(program_, access.buffer), {}};
      const Access all = has_bodies(step) || !access.maps.empty() ? whole : Access{access.buffer, access.turns};
      if (std::ranges::find(made, all) == made.end()) made.push_back(all);
    });
    return made;
  }

  bool can_be_dealt(const Step& step) const {
    bool possible = !std::holds_alternative<UntilStep>(step.what) && !uses_axis(step);
    for (const Access& access : made_by(step)) {
      const Buffer& buffer = program_.buffer(storage(program_, access.buffer));
      possible = possible && (buffer.type == Type::f32 || buffer.type == Type::f64) && !buffer.stored &&
                 is_equal_along(buffer);
    }
    return possible && !made_by(step).empty();
  }

  bool is_equal_along(const Buffer& buffer) const {
    return std::ranges::none_of(buffer.dims, [&](const LocalDim& d) { return contains(d.placement.axes, axis_); });
  }

  bool uses_axis(const Step& step) const {
    if (const auto* one = std::get_if<CollectiveStep>(&step.what)) return contains(one->axes, axis_);
    if (const auto* call = std::get_if<CombinedStep>(&step.what))
      return contains(call->collectives.front().axes, axis_);
    bool uses = false;
    for (const Steps* body : bodies(step))
      for (const Step& inner : *body) uses = uses || uses_axis(inner);
    return uses;
  }

  CollectiveStep largest(const Access& access) {
    program_.buffer(storage(program_, access.buffer)).space = Space::arena;
    CollectiveStep step{};
    step.kind = CollectiveKind::all_reduce;
    step.from = step.to = access;
    step.axes = {axis_};
    const auto dims = dims_of(program_, access);
    step.before = step.after = {dims.begin(), dims.end()};
    step.reduce = Reduce::max;
    step.step = static_cast<uint32_t>(program_.sharded.steps.size());
    program_.sharded.steps.push_back(
        {CollectiveKind::all_reduce, {axis_}, -1, -1, {}, Reduce::max, 0, 0, "handed on by a stage", {}});
    return step;
  }

  Program& program_;
  AxisId axis_;
  int64_t turn_ = -1, loops_ = 0;
};

}  // namespace

Program staged(Program program, const std::string& axis) {
  const std::vector<MeshAxis>& axes = program.sharded.layout.mesh.axes;
  const auto found = std::ranges::find(axes, axis, &MeshAxis::name);
  if (found == axes.end()) throw std::logic_error("the mesh has no axis " + axis);
  Stages stages(program, static_cast<AxisId>(found - axes.begin()));
  for_each_list(program, without_overlap);
  for (Routine& routine : program.routines) routine.steps = stages.dealt(std::move(routine.steps));
  plan_memory(program);
  return program;
}

}  // namespace mesh::tests
