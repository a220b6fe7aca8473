#include "codegen/program/fuse.h"

#include "codegen/program/walk.h"

namespace mesh {

namespace {

size_t count_steps(const Program& program) {
  size_t count = 0;
  for (const Routine& routine : program.routines) for_each_step(routine.steps, [&](const Step&) { ++count; });
  return count;
}

}  // namespace

void fuse(Program& program) {
  join_branches(program);
  share_copies(program);
  // Each round may leave copies that were in the way of the next: of sums and slopes that products now store.
  for (size_t before = 0; before != count_steps(program);) {
    before = count_steps(program);
    forward_copies(program);
    simplify(program);
    fuse_epilogues(program);
    fuse_column_sums(program);
    fuse_carries(program);
  }
  fuse_rounding(program);
  renew_in_place(program);
  coalesce(program);
  fuse_carries(program);
  join_terms(program);
  join_sums(program);
  // Neighbours first, so that a value is computed beside its reader; then over the calls in between.
  for (size_t before = 0; before != count_steps(program);) {
    before = count_steps(program);
    for (bool across : {false, true}) {
      fuse_nests(program, across);
      simplify(program);
    }
  }
  coalesce(program);
  add_turns_in_place(program);
  add_in_place(program);
  simplify(program);
  mark_rounded_alone(program);
}

}  // namespace mesh
