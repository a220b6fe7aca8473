#include "codegen/program/fuse.h"

namespace mesh {

namespace {

size_t count_steps(const std::vector<Step>& steps) {
  size_t count = steps.size();
  for (const Step& step : steps)
    if (const auto* loop = std::get_if<std::unique_ptr<ForStep>>(&step.what)) count += count_steps((*loop)->body);
  return count;
}

size_t count_steps(const Program& program) {
  size_t count = 0;
  for (const Routine& routine : program.routines) count += count_steps(routine.steps);
  return count;
}

}  // namespace

void fuse(Program& program) {
  forward_copies(program);
  fuse_products(program);
  forward_copies(program);  // slopes that products now store are read as they are
  simplify(program);        // the copies themselves go
  fuse_products(program);   // gates that were behind a copy
  coalesce(program);
  // Neighbours first, so that a value is computed beside its reader; then over the calls in between.
  for (size_t before = 0; before != count_steps(program);) {
    before = count_steps(program);
    for (bool across : {false, true}) {
      fuse_nests(program, across);
      simplify(program);
    }
  }
  coalesce(program);
  simplify(program);
}

}  // namespace mesh
