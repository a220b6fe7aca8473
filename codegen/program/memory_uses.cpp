#include "codegen/program/memory_uses.h"

#include <algorithm>

#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/walk.h"

namespace mesh {

MemoryUses::MemoryUses(Program& program)
    : program_(&program), readers_(program.buffers.size()), writers_(program.buffers.size()) {
  for (Routine& routine : program.routines)
    for_each_step(routine.steps, [&](Step& step) {
      if (!has_bodies(step)) add(step);
    });
}

uint32_t MemoryUses::root(const Access& access) const { return storage(*program_, access.buffer).index; }

const std::vector<Step*>& MemoryUses::readers(const Access& access) const { return readers_[root(access)]; }
const std::vector<Step*>& MemoryUses::writers(const Access& access) const { return writers_[root(access)]; }

bool MemoryUses::reads(const Step& step, const Access& access) const {
  if (has_bodies(step)) return contains(sets_of(*program_, step).reads, root(access));
  return std::ranges::count(readers(access), &step) > 0;
}

void MemoryUses::add(Step& step) {
  const StepSets sets = sets_of(*program_, step);
  for (const uint32_t buffer : sets.reads) readers_[buffer].push_back(&step);
  for (const uint32_t buffer : sets.writes) writers_[buffer].push_back(&step);
}

void MemoryUses::forget(Step& step) {
  const StepSets sets = sets_of(*program_, step);
  for (const uint32_t buffer : sets.reads) std::erase(readers_[buffer], &step);
  for (const uint32_t buffer : sets.writes) std::erase(writers_[buffer], &step);
}

void MemoryUses::change(Step& step, const std::function<void()>& edit) {
  forget(step);
  edit();
  add(step);
}

void MemoryUses::removed(Step& step) {
  forget(step);
  removed_.insert(&step);
}

void MemoryUses::sweep() {
  for_each_list(*program_,
                [&](Steps& steps) { std::erase_if(steps, [&](const Step& step) { return is_removed(step); }); });
}

bool may_move(const Program& program, const MemoryUses& uses, const Steps& steps, size_t from, size_t to) {
  const StepSets own = sets_of(program, steps[from]);
  for (size_t k = std::min(from, to); k <= std::max(from, to); ++k)
    if (k != from && !uses.is_removed(steps[k]) && conflict(sets_of(program, steps[k]), own)) return false;
  return true;
}

}  // namespace mesh
