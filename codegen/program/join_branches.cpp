// join_branches.cpp: what a stage of a pipeline does alone in an action, or in a part of the step, as one branch. A
// gradient that is made in one and added up in another is then added up where it is made (coalesce.cpp,
// fuse_epilogues.cpp, add_turns_in_place.cpp), and a parameter is updated in its place, without memory between.
#include <algorithm>
#include <iterator>
#include <span>

#include "codegen/program/accesses.h"
#include "codegen/program/fuse.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using At = Steps::iterator;

/// Whether a step may stand on the other side of all of these.
bool may_pass(const Program& program, const Step& step, std::span<const Step> others) {
  const StepSets moved = sets_of(program, step);
  return std::ranges::none_of(others, [&](const Step& other) { return conflict(moved, sets_of(program, other)); });
}

/// The last branch on the same ranks before step `at`, of the same part or of `any`; the end where there is none.
At branch_before(Steps& steps, At at, bool any) {
  const auto& own = std::get<BranchStep>(at->what);
  for (auto before = at; before != steps.begin();) {
    --before;
    const auto* branch = std::get_if<BranchStep>(&before->what);
    if (branch && branch->at == own.at && branch->stage == own.stage && (any || before->part == at->part))
      return before;
  }
  return steps.end();
}

/// The later one goes to the earlier one, or that to it.
void join_in(const Program& program, Steps& steps, bool any) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!std::holds_alternative<BranchStep>(steps[i].what)) continue;
    const auto at = steps.begin() + static_cast<std::ptrdiff_t>(i);
    const auto before = branch_before(steps, at, any);
    if (before == steps.end()) continue;
    const std::span<const Step> between(before + 1, at);
    const bool up = may_pass(program, *at, between);
    if (!up && !may_pass(program, *before, between)) continue;
    std::ranges::move(std::get<BranchStep>(at->what).body, std::back_inserter(std::get<BranchStep>(before->what).body));
    if (!up) std::swap(before->what, at->what);
    steps.erase(up ? at : before);
    --i;
  }
}

}  // namespace

void join_branches(Program& program) {
  for (Routine& routine : program.routines) {
    join_in(program, routine.steps, false);
    for_each_step(routine.steps, [&](Step& step) {
      if (auto* action = std::get_if<ActionStep>(&step.what)) join_in(program, action->body, true);
    });
  }
}

}  // namespace mesh
