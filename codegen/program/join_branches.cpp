// join_branches.cpp: what a stage of a pipeline does alone in an action, as one branch. A gradient that is made in one
// and added up in another is then added up where it is made (coalesce.cpp, fuse_epilogues.cpp), without memory between.
#include <algorithm>
#include <iterator>

#include "codegen/program/accesses.h"
#include "codegen/program/fuse.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

/// The branch on the same ranks before step `at` up to which that step may be moved; the end where there is none.
Steps::iterator branch_before(const Program& program, Steps& steps, Steps::iterator at) {
  const auto& own = std::get<BranchStep>(at->what);
  const StepSets moved = sets_of(program, *at);
  for (auto before = at; before != steps.begin();) {
    --before;
    const auto* branch = std::get_if<BranchStep>(&before->what);
    if (branch && branch->at == own.at && branch->stage == own.stage) return before;
    if (conflict(moved, sets_of(program, *before))) break;
  }
  return steps.end();
}

void join_in(const Program& program, Steps& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!std::holds_alternative<BranchStep>(steps[i].what)) continue;
    const auto at = steps.begin() + static_cast<std::ptrdiff_t>(i);
    const auto before = branch_before(program, steps, at);
    if (before == steps.end()) continue;
    std::ranges::move(std::get<BranchStep>(at->what).body, std::back_inserter(std::get<BranchStep>(before->what).body));
    steps.erase(at);
    --i;
  }
}

}  // namespace

void join_branches(Program& program) {
  for (Routine& routine : program.routines)
    for_each_step(routine.steps, [&](Step& step) {
      if (auto* action = std::get_if<ActionStep>(&step.what)) join_in(program, action->body);
    });
}

}  // namespace mesh
