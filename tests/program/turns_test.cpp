// Slots of stacked buffers: what the verifier and the printer know of rings.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/program/lower.h"
#include "codegen/program/print_program.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"
#include "tests/program/messages.h"
#include "tests/program/models.h"
#include "tests/program/prefetched.h"

namespace mesh {
namespace {

using tests::tells;

Program pairs() {
  const Graph model = tests::residual();
  return tests::prefetched(lower(tests::placed(model, tests::layout(model, {{"data", 2}}, {{"batch", "data"}}))));
}

/// The first copy into the slot of a ring that turns with a loop, or into a slot that stands still.
CopyStep* first_copy(Program& program, bool turning) {
  CopyStep* found = nullptr;
  for_each_list(program, [&](Steps& steps) {
    for (Step& step : steps)
      if (auto* copy = std::get_if<CopyStep>(&step.what);
          copy && !found && !copy->to.turns.empty() && bool(copy->to.turns[0].loop) == turning)
        found = copy;
  });
  if (!found) throw std::out_of_range("no such copy");
  return found;
}

TEST(Turns, rings_are_printed_and_in_order) {
  const Program program = pairs();
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  const std::string text = print_program(program);
  EXPECT_NE(text.find("[(layer + 1) mod 2] = "), std::string::npos) << text;
  EXPECT_NE(text.find("[layer mod 2]"), std::string::npos) << text;
  EXPECT_NE(text.find("[0] = "), std::string::npos) << text;
}

TEST(Turns, a_slot_is_read_after_it_was_written) {
  Program program = pairs();
  CopyStep* before = first_copy(program, false);
  before->to.turns[0].offset = 1 - before->to.turns[0].offset;  // the first turn reads the other one
  EXPECT_TRUE(tells(program, "before anything writes that slot"));
  before->to.turns[0].offset = 1 - before->to.turns[0].offset;
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
}

TEST(Turns, slots_are_those_of_the_dim) {
  for (const TurnIndex& wrong :
       {TurnIndex{{}, 2}, TurnIndex{{}, -1}, TurnIndex{{}, 0, 2}, TurnIndex{LoopId{99}, 0, 2}}) {
    Program program = pairs();
    first_copy(program, false)->to.turns[0] = wrong;
    EXPECT_TRUE(tells(program, "by a turn that is not its dim's, or a slot that it lacks")) << wrong.offset;
  }
  for (const int64_t period : {0, 1, 3}) {
    Program program = pairs();
    first_copy(program, true)->to.turns[0].period = period;
    EXPECT_TRUE(tells(program, "by a turn that is not its dim's, or a slot that it lacks")) << period;
  }
}

}  // namespace
}  // namespace mesh
