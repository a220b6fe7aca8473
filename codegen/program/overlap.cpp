#include "codegen/program/overlap.h"

#include <algorithm>
#include <vector>

#include "codegen/program/accesses.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;

bool is_in(const Step& step, Phase phase) {
  const auto moved = movements(step);
  return !moved.empty() && moved.front().phase == phase;
}

/// Where the step that `call` starts must have ended: before a step that touches its buffers, before the end of the
/// forward part, which another entry may execute by itself, and of the list.
size_t first_need(const Program& program, std::span<const Step> steps, size_t call) {
  const bool forward = part_of(steps[call]) == Part::forward;
  size_t at = call + 1;
  while (at < steps.size() && !std::holds_alternative<UntilStep>(steps[at].what) &&
         (part_of(steps[at]) == Part::forward) == forward && !common_memory(program, steps[call], steps[at]))
    ++at;
  return at;
}

void overlap(const Program& program, Steps& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!is_in(steps[i], Phase::whole)) continue;
    const MeshShape& mesh = program.sharded.layout.mesh;
    if (mesh.size(movements(steps[i]).front().axes) == 1) continue;
    const size_t need = first_need(program, steps, i);
    const auto computes = [](const Step& step) { return movements(step).empty(); };
    if (std::none_of(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     steps.begin() + static_cast<std::ptrdiff_t>(need), computes))
      continue;
    Step wait = steps[i];
    for (CollectiveStep& one : movements(steps[i])) one.phase = Phase::start;
    for (CollectiveStep& one : movements(wait)) one.phase = Phase::wait;
    // It stands with the step that needs it, of the same block instance.
    const Step& beside = need < steps.size() ? steps[need] : steps.back();
    wait.part = need < steps.size() && (part_of(beside) == Part::forward) != (wait.part == Part::forward)
                    ? part_of(steps[need - 1])
                    : part_of(beside);
    wait.scope = has_bodies(beside) ? "" : beside.scope;
    wait.notes.clear();
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(need), std::move(wait));
  }
}

void find_meanwhile(const Steps& steps, bool around, std::set<const Step*>& found) {
  int started = 0;
  for (const Step& step : steps) {
    if (is_in(step, Phase::wait)) --started;
    if (around || started > 0) found.insert(&step);
    for (const Steps* body : bodies(step)) find_meanwhile(*body, around || started > 0, found);
    if (is_in(step, Phase::start)) ++started;
  }
}

}  // namespace

std::span<CollectiveStep> movements(Step& step) {
  if (auto* one = std::get_if<CollectiveStep>(&step.what)) return {one, 1};
  if (auto* several = std::get_if<CombinedStep>(&step.what)) return several->collectives;
  return {};
}

std::span<const CollectiveStep> movements(const Step& step) {
  return movements(const_cast<Step&>(step));  // hands them out as they are
}

void overlap_collectives(Program& program) {
  for_each_list(program, [&](Steps& steps) { overlap(program, steps); });
}

size_t wait_of(std::span<const Step> steps, size_t start) {
  const uint32_t call = movements(steps[start]).front().step;
  size_t at = start + 1;
  while (at < steps.size() && !(is_in(steps[at], Phase::wait) && movements(steps[at]).front().step == call)) ++at;
  return at;
}

std::set<const Step*> steps_meanwhile(const Program& program) {
  std::set<const Step*> found;
  for (const Routine& routine : program.routines) find_meanwhile(routine.steps, false, found);
  return found;
}

}  // namespace mesh
