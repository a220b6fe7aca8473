// Sums of micro-batches between hosts: each starts within the last micro-batch, as soon as that has added to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "codegen/program/exposed.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"
#include "tests/program/messages.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::expect_message;
using tests::train;
using Phase = CollectiveStep::Phase;

CompileRequest by_micro_batches(const std::string& layout) {
  CompileRequest request;
  request.files = {LAST_TURN};
  request.layout = layout;
  request.machine_file = HOSTS;
  return request;
}

Program summed(const std::string& layout) { return tests::compiled(by_micro_batches(layout)).program; }

/// The loop over the micro-batches, in the list of the training step.
size_t micro_batches(const Steps& steps) {
  const auto found = std::ranges::find_if(steps, [](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    return loop && is_plain(*loop) && !ends_others(*loop);
  });
  if (found == steps.end()) throw std::logic_error("there is no loop over micro-batches");
  return static_cast<size_t>(found - steps.begin());
}

/// The list in which a call is started that the last turn alone makes, and where: among the steps of micro-batches, or
/// of a loop there.
struct Started {
  Steps* list = nullptr;
  size_t at = 0;
  const Step& step() const { return (*list)[at]; }
};
Started started(Program& program, bool by_layers) {
  Steps& steps = train(program);
  auto& loop = std::get<ForStep>(steps[micro_batches(steps)].what);
  Started found;
  for_each_list(loop.body, [&](Steps& list) {
    for (size_t i = 0; i < list.size(); ++i)
      if (is_in(list[i], Phase::start) && movements(list[i]).front().last_turn && (&list != &loop.body) == by_layers)
        found = {&list, i};
  });
  if (!found.list) throw std::logic_error("the last turn starts nothing");
  return found;
}

std::set<BufferId> moved(const Step& call) {
  std::set<BufferId> values;
  for (const CollectiveStep& one : movements(call)) values.insert(one.from.buffer);
  return values;
}

TEST(LastTurn, starts_the_sum_of_each_layer_when_it_is_complete) {
  Program program = summed("rows");
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  const Steps& steps = train(program);
  const auto& batch = std::get<ForStep>(steps[micro_batches(steps)].what);
  const Started layers = started(program, true);
  EXPECT_EQ(moved(layers.step()).size(), 3U);  // of up, bias and down
  EXPECT_EQ(movements(layers.step()).front().last_turn, batch.loop);
  // The loss first, then what stands behind the layers. The table is complete when all is done.
  std::vector<size_t> calls, loops;
  for (size_t i = 0; i < batch.body.size(); ++i) {
    if (is_in(batch.body[i], Phase::start)) calls.push_back(i);
    if (std::holds_alternative<ForStep>(batch.body[i].what)) loops.push_back(i);
  }
  ASSERT_EQ(calls.size(), 3U);
  ASSERT_EQ(loops.size(), 2U);
  EXPECT_GT(calls[0], loops[0]);
  EXPECT_LT(calls[2], loops[1]);
  // Behind the micro-batches each layer is updated as soon as its sums are there.
  const auto waits = std::ranges::find_if(steps, [](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    return loop && ends_others(*loop);
  });
  ASSERT_NE(waits, steps.end());
  EXPECT_EQ(std::get<ForStep>(waits->what).body.size(), 4U);
}

/// Hosts of one rank each.
std::string apart_machine(const std::string& name, const std::string& network) {
  std::string path = testing::TempDir() + "/" + name + ".yaml";
  std::ofstream(path) << "name: apart\ngflops: { f32: 2, f64: 2 }\nnode: { ranks: 1 }\nnetwork: " << network << "\n";
  return path;
}

TEST(LastTurn, gives_the_numbers_of_one_rank) {
  for (const std::string layout : {"rows", "parts", "pieces", "held"}) {
    tests::expect_as_one_rank(by_micro_batches(layout), layout);
    CompileRequest request = by_micro_batches(layout);
    request.precision = "f64";
    const Program earlier = tests::compiled(request).program;
    request.plain = true;
    tests::expect_equal(tests::run(tests::compiled(request).program), tests::run(earlier), layout);
  }
}

TEST(LastTurn, scatters_sums_of_which_each_rank_updates_a_part) {
  Program program = summed("parts");
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  int scattered = 0;
  for_each_step(train(program), [&](const Step& step) {
    if (is_in(step, Phase::start) && movements(step).front().last_turn)
      for (const CollectiveStep& one : movements(step)) scattered += one.kind == CollectiveKind::reduce_scatter;
  });
  EXPECT_EQ(scattered, 3);  // of up and down by layers, and of out
}

/// Beside calls that turns hand over to each other: what the loss adds up starts in the last of these turns.
TEST(LastTurn, starts_sums_beside_what_turns_hand_over) {
  CompileRequest request;
  request.files = {testing::TempDir() + "/handed_over.mesh"};
  std::ofstream(request.files[0]) << R"(
dim batch = 64, wide = 512, out = 512
model M {
  input x : real[batch, wide]
  input y : real[batch, out]
  param w : real[wide, out] = fan_in[wide]
  loss = mean[batch](sum[out]((dot[wide](x, w) - y) ^ 2))
  minimize loss with sgd(lr: 0.01)
}
mesh hosts { data: 4 }
layout pieces on hosts { batch -> data { accumulate: 2 }; grads { out -> data } }
)";
  request.layout = "pieces";
  request.machine_file = apart_machine("slow_wire", "{ latency_us: 10, gbs: 0.001 }");
  const Compiled compiled = tests::compiled(request);
  Program program = compiled.program;
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  const auto& loop = std::get<ForStep>(train(program)[micro_batches(train(program))].what);
  EXPECT_TRUE(hands_over(loop));
  // Nothing is there to hide what this wire takes: of each call it is known when it ends.
  const Prediction prediction = predict(program);
  EXPECT_GT(exposed_seconds(program, prediction), 0.9 * prediction.communication_seconds);
  const Started start = started(program, false);
  for (CollectiveStep& one : movements((*start.list)[start.at])) one.last_turn = {};
  expect_message(program, "while this is under way");
}

/// Many calls cost more than they hide where each takes long.
TEST(LastTurn, starts_nothing_early_where_that_takes_longer) {
  CompileRequest request = by_micro_batches("rows");
  request.machine_file = apart_machine("far", "{ latency_us: 1000, gbs: 10 }");
  Program program = tests::compiled(request).program;
  for (const bool by_layers : {true, false}) EXPECT_THROW(started(program, by_layers), std::logic_error);
}

/// Each layer sends a part for itself: what is planned are these calls, and what they send.
TEST(LastTurn, is_planned_as_it_is_made) {
  const Compiled compiled = tests::compiled(by_micro_batches("rows"));
  const Prediction prediction = predict(compiled.program);
  const auto of = [&](const std::string& tensor) {
    const auto found = std::ranges::find_if(prediction.collectives, [&](const PlannedCollective& one) {
      return one.tensor == tensor && one.kind == CollectiveKind::all_reduce;
    });
    if (found == prediction.collectives.end()) throw std::logic_error("nothing is planned of " + tensor);
    return *found;
  };
  constexpr int64_t layers = 4, sent = int64_t{2} * 3 * 6 * 10;  // twice three of four parts, of four bytes
  EXPECT_EQ(of("d_layer.up").count, layers);
  EXPECT_EQ(of("d_layer.up").bytes, sent);
  EXPECT_EQ(of("d_out").count, 1);
  EXPECT_EQ(of("d_out").bytes, sent);
  CompileRequest plain = by_micro_batches("rows");
  plain.plain = true;
  const Compiled at_once = tests::compiled(plain);
  const Prediction then = predict(at_once.program);
  EXPECT_EQ(bytes_sent(prediction), bytes_sent(then));
  EXPECT_LT(exposed_seconds(compiled.program, prediction), exposed_seconds(at_once.program, then));
}

TEST(LastTurn, the_verifier_finds_a_start_in_every_turn) {
  for (const bool by_layers : {true, false}) {
    Program program = summed("rows");
    const Started start = started(program, by_layers);
    for (CollectiveStep& one : movements((*start.list)[start.at])) one.last_turn = {};
    expect_message(program, "while this is under way");
  }
}

TEST(LastTurn, the_verifier_finds_a_start_in_the_last_turn_of_another_loop) {
  Program program = summed("rows");
  const Started start = started(program, true);
  for (CollectiveStep& one : movements((*start.list)[start.at])) one.last_turn = LoopId{program.loops};
  expect_message(program, "is in no last turn that all ranks make");
}

TEST(LastTurn, the_verifier_finds_one_that_is_started_before_it_is_complete) {
  Program program = summed("rows");
  const Started start = started(program, true);
  const auto first = start.list->begin();
  std::rotate(first, first + static_cast<std::ptrdiff_t>(start.at), first + static_cast<std::ptrdiff_t>(start.at) + 1);
  expect_message(program, "while this is under way");
}

TEST(LastTurn, the_verifier_finds_a_wait_in_every_turn) {
  Program program = summed("rows");
  const Started start = started(program, false);
  Steps& steps = train(program);
  const size_t first = micro_batches(steps);
  const auto wait =
      std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.end(), [&](const Step& step) {
        return is_in(step, Phase::wait) && movements(step).front().step == movements(start.step()).front().step;
      });
  ASSERT_NE(wait, steps.end());
  Step moved = *wait;
  steps.erase(wait);
  std::get<ForStep>(steps[first].what).body.push_back(std::move(moved));
  expect_message(program, "waits for what was not started");
}

TEST(LastTurn, the_verifier_finds_a_start_of_another_turn_too) {
  Program program = summed("rows");
  const Started start = started(program, true);
  for (CollectiveStep& one : movements((*start.list)[start.at])) one.other_turn = {one.last_turn, 1};
  expect_message(program, "is of another turn, but not by that alone");
}

TEST(LastTurn, the_verifier_finds_a_wait_that_the_last_turn_alone_makes) {
  Program program = summed("rows");
  const Started start = started(program, true);
  for_each_step(train(program), [&](Step& step) {
    if (is_in(step, Phase::wait))
      for (CollectiveStep& one : movements(step)) one.last_turn = movements(start.step()).front().last_turn;
  });
  expect_message(program, "is made in a last turn, but starts nothing there");
}

TEST(LastTurn, the_verifier_finds_values_of_one_call_that_other_turns_move) {
  Program program = summed("rows");
  const Started start = started(program, true);
  movements((*start.list)[start.at]).back().last_turn = {};
  expect_message(program, "makes other movements in one call");
}

TEST(LastTurn, the_verifier_finds_a_loop_that_goes_the_other_way) {
  Program program = summed("rows");
  std::get<ForStep>(train(program)[micro_batches(train(program))].what).reverse = true;
  expect_message(program, "is in no last turn that all ranks make");
}

TEST(LastTurn, the_verifier_finds_a_sum_that_nobody_waits_for) {
  Program program = summed("rows");
  Steps& steps = train(program);
  std::erase_if(steps, [](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    return loop && ends_others(*loop);
  });
  expect_message(program, "is never waited for");
}

}  // namespace
}  // namespace mesh
