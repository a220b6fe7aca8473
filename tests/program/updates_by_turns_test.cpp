// Updates that are made turn by turn in the loop that waits for their gradients, and results that are waited for behind
// the forward part.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "codegen/program/accesses.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"
#include "tests/program/messages.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::expect_message;
using Phase = CollectiveStep::Phase;

CompileRequest rows(const std::string& file = UPDATES_BY_TURNS) {
  CompileRequest request;
  request.files = {file};
  request.layout = "rows";
  request.machine_file = HOSTS;
  return request;
}

/// The same with gradients that are clipped, for which all of them must be there.
CompileRequest clipped() {
  std::ifstream given(UPDATES_BY_TURNS);
  std::string text(std::istreambuf_iterator<char>(given), {});
  const std::string rate = "adam(lr: 0.01";
  text.insert(text.find(rate) + rate.size(), ", clip: 1");
  const std::string path = testing::TempDir() + "/clipped_updates.mesh";
  std::ofstream(path) << text;
  return rows(path);
}

/// Each rank updates a part of what lies along `embed`.
CompileRequest parts() {
  CompileRequest request = rows();
  request.layout = "parts";
  return request;
}

Steps& train(Program& program) { return program.routines[program.step().run].steps; }
Steps& evaluate(Program& program) { return program.routines[program.entry("evaluate")->run].steps; }

bool is_in(const Step& step, Phase phase) { return !movements(step).empty() && movements(step).front().phase == phase; }

/// The loop that waits for gradients of the layers, in its list.
size_t loop_that_waits(const Steps& steps) {
  const auto found = std::ranges::find_if(steps, [](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    return loop && ends_others(*loop);
  });
  if (found == steps.end()) throw std::logic_error("no loop waits for turns");
  return static_cast<size_t>(found - steps.begin());
}

/// How many of the steps are nests that write a parameter.
int updates(const Program& program, std::span<const Step> steps) {
  return static_cast<int>(std::ranges::count_if(steps, [&](const Step& step) {
    bool writes = false;
    for_each_access(step, [&](const Access& access, Use use) {
      writes = writes || (use != Use::read && program.buffer(access.buffer).kind == BufferKind::parameter);
    });
    return writes && std::holds_alternative<Nest>(step.what);
  }));
}

TEST(UpdatesByTurns, are_made_as_soon_as_the_gradients_of_their_turn_are_there) {
  Program program = tests::compiled(rows()).program;
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  const Steps& steps = train(program);
  const size_t at = loop_that_waits(steps);
  const auto& loop = std::get<ForStep>(steps[at].what);
  EXPECT_EQ(loop.body.size(), 4U);  // one call of all gradients of a layer, and the updates of `up`, `bias` and `down`
  EXPECT_EQ(updates(program, loop.body), 3);
  EXPECT_EQ(updates(program, steps), 1);  // of the table, whose gradient is the last to be started: behind the loop
  EXPECT_EQ(updates(program, std::span(steps).subspan(at)), 1);
  EXPECT_TRUE(is_in(steps[at + 1], Phase::wait));
}

TEST(UpdatesByTurns, give_the_numbers_of_a_program_that_waits_at_once) {
  for (CompileRequest request : {rows(), parts(), clipped()}) {
    request.precision = "f64";
    const Program overlapped = tests::compiled(request).program;
    request.plain = true;
    const Program plain = tests::compiled(request).program;
    tests::expect_equal(tests::run(plain), tests::run(overlapped), request.files.front());
    const std::vector<double> expected = tests::evaluate(plain, 2), found = tests::evaluate(overlapped, 2);
    ASSERT_EQ(expected.size(), 2U);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.at(i), expected[i], 1e-12);
  }
}

TEST(UpdatesByTurns, wait_for_all_turns_where_they_need_a_number_of_all) {
  Program program = tests::compiled(clipped()).program;
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  const Steps& steps = train(program);
  const size_t at = loop_that_waits(steps);
  EXPECT_EQ(updates(program, std::get<ForStep>(steps[at].what).body), 0);
  EXPECT_EQ(updates(program, std::span(steps).subspan(at)), 4);
}

TEST(UpdatesByTurns, of_parts_have_their_gradients_scattered_while_later_turns_are_computed) {
  Program program = tests::compiled(parts()).program;
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  int scattered = 0;
  for (const Step& step : train(program)) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    if (!loop || !loop->reverse || loop->body.size() < 5) continue;
    for (const Step& inner : loop->body)
      if (is_in(inner, Phase::start) && movements(inner).front().kind == CollectiveKind::reduce_scatter)
        scattered += static_cast<int>(movements(inner).size());
  }
  EXPECT_EQ(scattered, 2);  // of `up` and `down`; what lacks `embed` all ranks update alike
}

TEST(UpdatesByTurns, the_verifier_finds_one_that_touches_what_other_turns_wait_for) {
  Program program = tests::compiled(rows()).program;
  Steps& steps = train(program);
  Steps& body = std::get<ForStep>(steps[loop_that_waits(steps)].what).body;
  const Access second{movements(body.front()).front().to.buffer, {{LoopId{}, 1}}};
  body.push_back(Step{FillStep{second, 0}, Part::update, {}, "", {}});
  expect_message(program, "while this is under way");
}

/// The call of the forward part that is waited for behind it, in the list of the training step.
size_t call_of_results(Program& program) {
  const Steps& steps = train(program);
  for (size_t i = 0; i < forward_steps(steps); ++i)
    if (is_in(steps[i], Phase::start) && wait_of(steps, i) > forward_steps(steps)) return i;
  throw std::logic_error("the forward part waits for all it starts");
}

TEST(ResultsOfForward, are_waited_for_by_each_routine_that_begins_with_it) {
  Program program = tests::compiled(rows()).program;
  const Steps& steps = train(program);
  const size_t call = call_of_results(program);
  EXPECT_EQ(movements(steps[call]).size(), 2U);  // of the loss, and of the accuracy
  EXPECT_EQ(steps[wait_of(steps, call)].what.index(), steps[call].what.index());
  ASSERT_FALSE(evaluate(program).empty());
  EXPECT_TRUE(is_in(evaluate(program).front(), Phase::wait));
  EXPECT_EQ(movements(evaluate(program).front()).front().step, movements(steps[call]).front().step);
}

TEST(ResultsOfForward, the_verifier_finds_a_routine_that_does_not_wait) {
  Program program = tests::compiled(rows()).program;
  evaluate(program).erase(evaluate(program).begin());
  expect_message(program, "evaluate: together all_reduce start over data sum loss_sum");
  program = tests::compiled(rows()).program;
  train(program).erase(train(program).begin() +
                       static_cast<std::ptrdiff_t>(wait_of(train(program), call_of_results(program))));
  expect_message(program, "is never waited for");
}

TEST(ResultsOfForward, the_verifier_finds_a_wait_for_what_the_forward_part_has_not_started) {
  Program program = tests::compiled(rows()).program;
  const size_t call = call_of_results(program);
  train(program).erase(train(program).begin() + static_cast<std::ptrdiff_t>(call));
  expect_message(program, "evaluate: together all_reduce wait over data sum loss_sum");
}

}  // namespace
}  // namespace mesh
