// Branches on coordinates: what the verifier, the lifetimes and the printer know of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/branches.h"
#include "codegen/program/extent.h"
#include "codegen/program/lifetimes.h"
#include "codegen/program/lower.h"
#include "codegen/program/memory.h"
#include "codegen/program/print_program.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"
#include "tests/program/messages.h"
#include "tests/program/models.h"
#include "tests/program/staged.h"

namespace mesh {
namespace {

using tests::layout;
using tests::tells;

constexpr AxisId pipe = 0, data = 1;

/// Ranks along `pipe` take turns; samples are dealt over `data`.
Program taking_turns() {
  const Graph model = tests::residual();
  return tests::staged(lower(tests::placed(model, layout(model, {{"pipe", 3}, {"data", 2}}, {{"batch", "data"}}))),
                       "pipe");
}

Steps& steps_of(Program& program) { return program.routines[0].steps; }

/// The first branch whose body begins with a step of the kind.
template <class Kind>
size_t first_branch(Program& program) {
  Steps& steps = steps_of(program);
  const auto found = std::ranges::find_if(steps, [](const Step& step) {
    const auto* branch = std::get_if<BranchStep>(&step.what);
    return branch && std::holds_alternative<Kind>(branch->body.front().what);
  });
  if (found == steps.end()) throw std::out_of_range("no such branch");
  return static_cast<size_t>(found - steps.begin());
}

BranchStep& branch_at(Program& program, size_t i) { return std::get<BranchStep>(steps_of(program)[i].what); }

TEST(Branch, programs_whose_ranks_take_turns_are_in_order) {
  const Program program = taking_turns();
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  const std::string text = print_program(program);
  EXPECT_NE(text.find("\n  on pipe 0\n    "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  on pipe 1 or 2\n    fill "), std::string::npos) << text;
}

TEST(Branch, what_some_ranks_write_the_others_may_not_read) {
  Program program = taking_turns();
  const size_t fills = first_branch<FillStep>(program);
  steps_of(program).erase(steps_of(program).begin() + static_cast<std::ptrdiff_t>(fills));
  EXPECT_TRUE(tells(program, "before anything writes it on all ranks that come here"));
}

TEST(Branch, what_callers_get_is_written_on_every_rank) {
  Program program = taking_turns();
  const uint32_t loss = storage(program, program.step().results[0]).index;
  Steps& steps = steps_of(program);
  for (size_t i = steps.size(); i-- > 0;) {  // what makes the loss, and hands it on
    const auto* branch = std::get_if<BranchStep>(&steps[i].what);
    const Step& step = branch ? branch->body.front() : steps[i];
    bool writes = false;
    for_each_access(step, [&](const Access& access, Use use) {
      writes = writes || (use != Use::read && storage(program, access.buffer).index == loss);
    });
    if (writes && (!branch || std::holds_alternative<FillStep>(step.what)))
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_TRUE(tells(program, "metric loss is not on every rank written"));
}

TEST(Branch, all_ranks_of_a_group_come_to_its_collectives) {
  Program program = taking_turns();
  Steps& steps = steps_of(program);
  const auto over = [](const Step& step, AxisId axis) {
    const auto* collective = std::get_if<CollectiveStep>(&step.what);
    return collective && collective->axes == std::vector{axis};
  };
  // Those over the samples stand in branches on the other axis; into one of those, one along that axis may not.
  bool within = false;
  for_each_step(steps, [&](const Step& step) {
    if (const auto* branch = std::get_if<BranchStep>(&step.what))
      within = within || std::ranges::any_of(branch->body, [&](const Step& one) { return over(one, data); });
  });
  EXPECT_TRUE(within);
  const auto along = std::ranges::find_if(steps, [&](const Step& step) { return over(step, pipe); });
  ASSERT_NE(along, steps.end());
  Step moved = std::move(*along);
  *along = Step{BranchStep{{{pipe, {0, 2}}}, {}}, moved.part, {}, "", {}};
  std::get<BranchStep>(along->what).body.push_back(std::move(moved));
  EXPECT_TRUE(tells(program, "waits for ranks that do not come to it: it stands in a branch on pipe 0 or 2"));
  std::get<BranchStep>(along->what).at[0].coordinates = {0, 1, 2};
  EXPECT_FALSE(tells(program, "waits for ranks"));
}

TEST(Branch, asks_for_coordinates_that_there_are) {
  for (const std::vector<int64_t>& wrong : std::vector<std::vector<int64_t>>{{}, {3}, {-1}, {2, 1}, {1, 1}}) {
    Program program = taking_turns();
    branch_at(program, first_branch<FillStep>(program)).at[0].coordinates = wrong;
    EXPECT_TRUE(tells(program, "asks for coordinates that its mesh lacks, or not in order"));
  }
}

TEST(Branch, an_until_stands_at_the_end_of_a_loop) {
  Program program = taking_turns();
  const UntilStep until{{program.step().results[0], {}}};
  branch_at(program, first_branch<FillStep>(program)).body.push_back({until, Part::forward, {}, "", {}});
  EXPECT_TRUE(tells(program, "an until step is not the last one of a loop"));
}

TEST(Branch, what_no_rank_holds_both_of_may_share_memory) {
  Program program = taking_turns();
  // Two values that live all along, each on one coordinate.
  const auto add = [&](const std::string& name, int64_t coordinate) {
    Buffer buffer = program.buffer(program.step().results[0]);
    buffer.name = buffer.path = name;
    buffer.kind = BufferKind::workspace;
    buffer.space = Space::own;
    program.buffers.push_back(buffer);
    const BufferId id{static_cast<uint32_t>(program.buffers.size() - 1)};
    const auto on = [&](StepKind what) {
      BranchStep branch{{{pipe, {coordinate}}}, {}};
      branch.body.push_back({std::move(what), Part::forward, {}, "", {}});
      return Step{std::move(branch), Part::forward, {}, "", {}};
    };
    Steps& steps = steps_of(program);
    steps.insert(steps.begin(), on(FillStep{{id, {}}, 1}));
    steps.push_back(on(CopyStep{{id, {}}, {id, {}}}));
    return id;
  };
  const BufferId first = add("first", 0), last = add("last", 2), also_last = add("also_last", 2);
  plan_memory(program);
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  EXPECT_EQ(program.buffer(first).offset, program.buffer(last).offset);
  EXPECT_NE(program.buffer(last).offset, program.buffer(also_last).offset);
  const std::vector<Lifetime> life = lifetimes(program);
  EXPECT_FALSE(life[first.index].meets(life[last.index]));
  EXPECT_TRUE(life[last.index].meets(life[also_last.index]));
  program.buffer(also_last).offset = program.buffer(last).offset;
  EXPECT_TRUE(tells(program, "last and also_last live at the same time in the same memory"));
}

/// What one branch writes in a turn and another one reads in the next lives as long as the loop.
TEST(Branch, what_another_branch_left_in_the_turn_before_lives_on) {
  Program program = taking_turns();
  Buffer carried = program.buffer(program.step().results[0]);
  carried.name = carried.path = "carried";
  carried.space = Space::own;
  program.buffers.push_back(carried);
  const BufferId id{static_cast<uint32_t>(program.buffers.size() - 1)};
  Steps& steps = steps_of(program);
  ForStep* loop = nullptr;
  for_each_step(steps, [&](Step& step) {
    if (!loop) loop = std::get_if<ForStep>(&step.what);
  });
  ASSERT_NE(loop, nullptr);
  const auto on = [&](std::vector<int64_t> coordinates, StepKind what) {
    BranchStep branch{{{pipe, std::move(coordinates)}}, {}};
    branch.body.push_back({std::move(what), Part::forward, {}, "", {}});
    return Step{std::move(branch), Part::forward, {}, "", {}};
  };
  loop->body.insert(loop->body.begin(), on({0}, FillStep{{id, {}}, 1}));
  const auto block_of = [&] { return lifetimes(program)[id.index].block; };
  const int within = block_of();
  loop->body.push_back(on({0}, CopyStep{{id, {}}, {id, {}}}));
  const int turn = block_of();
  loop->body.push_back(on({1}, CopyStep{{id, {}}, {id, {}}}));  // not written there in this turn
  const int beyond = block_of();
  EXPECT_GT(within, turn);
  EXPECT_GT(turn, beyond);
}

}  // namespace
}  // namespace mesh
