// What is known of the uses of memory while steps change their places.
#include "codegen/program/memory_uses.h"

#include <gtest/gtest.h>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

Program program_of_gpt() {
  CompileRequest request;
  request.files = {std::string(SPECS) + "/gpt.mesh"};
  return tests::compiled(request).program;
}

using Places = std::vector<std::vector<size_t>>;  // by buffer
Places users(const Program& program, const MemoryUses& uses, const Steps& steps) {
  Places all;
  for (uint32_t i = 0; i < program.buffers.size(); ++i) all.push_back(uses.users(steps, {BufferId{i}, {}}));
  return all;
}

TEST(MemoryUses, follow_a_step_that_moves_on) {
  Program program = program_of_gpt();
  Steps& steps = program.routines[program.step().run].steps;
  MemoryUses uses(program);
  size_t moved = 0;
  for (size_t from = 0; from + 5 < steps.size(); ++from) {
    if (has_bodies(steps[from])) continue;
    uses.move_on(steps, from, from + 5);
    ++moved;
    ASSERT_EQ(users(program, uses, steps), users(program, MemoryUses(program), steps)) << from;
  }
  EXPECT_GT(moved, 10u);
}

/// In the order of the program.
TEST(MemoryUses, keep_their_order) {
  Program program = program_of_gpt();
  Steps& steps = program.routines[program.step().run].steps;
  MemoryUses uses(program);
  for (size_t from = 0; from + 3 < steps.size(); from += 2)
    if (!has_bodies(steps[from])) uses.move_on(steps, from, from + 3);
  const MemoryUses anew(program);
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    EXPECT_EQ(uses.readers({BufferId{i}, {}}), anew.readers({BufferId{i}, {}}));
    EXPECT_EQ(uses.writers({BufferId{i}, {}}), anew.writers({BufferId{i}, {}}));
  }
}

/// Of a step and those that it passes, and of no others.
TEST(MemoryUses, ask_of_what_moves_alone) {
  Program program = program_of_gpt();
  Steps& steps = program.routines[program.step().run].steps;
  MemoryUses uses(program);
  for (size_t from = 0; from + 4 < steps.size(); ++from) {
    if (has_bodies(steps[from])) continue;
    const uint64_t before = steps_asked();
    uses.move_on(steps, from, from + 4);
    EXPECT_LE(steps_asked() - before, 5u) << from;
  }
}

}  // namespace
}  // namespace mesh
