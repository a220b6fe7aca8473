// Updates that are made turn by turn in the loop that waits for their gradients, and results that are waited for behind
// the forward part.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
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
using tests::train;
using Phase = CollectiveStep::Phase;

CompileRequest rows(const std::string& file = UPDATES_BY_TURNS) {
  CompileRequest request;
  request.files = {file};
  request.layout = "rows";
  request.machine_file = HOSTS;
  return request;
}

std::string text_of(const std::string& file) {
  std::ifstream given(file);
  return {std::istreambuf_iterator<char>(given), {}};
}

/// The same with gradients that are clipped, for which all of them must be there.
CompileRequest clipped() {
  std::string text = text_of(UPDATES_BY_TURNS);
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

Steps& evaluate(Program& program) { return program.routines[program.entry("evaluate")->run].steps; }

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
    if (!loop || !hands_over(*loop)) continue;
    for (const Step& inner : loop->body)
      if (is_in(inner, Phase::start) && movements(inner).front().kind == CollectiveKind::reduce_scatter)
        scattered += static_cast<int>(movements(inner).size());
  }
  EXPECT_EQ(scattered, 2);  // of `up` and `down`; what lacks `embed` all ranks update alike
}

/// Seconds of all updates of a step.
double work_of_updates(const Program& program) {
  double seconds = 0;
  const std::function<void(const Steps&, double)> add = [&](const Steps& steps, double times) {
    for (const Step& step : steps) {
      if (step.part == Part::update) seconds += times * step.seconds;
      const auto* loop = std::get_if<ForStep>(&step.what);
      for (const Steps* body : bodies(step)) add(*body, loop ? times * static_cast<double>(loop->turns) : times);
    }
  };
  add(program.routines[program.step().run].steps, 1);
  return seconds;
}

TEST(UpdatesByTurns, take_as_long_in_all_turns_as_at_once) {
  CompileRequest on_one_host = rows();
  on_one_host.machine_file = testing::TempDir() + "/one_host.yaml";
  const std::string hosts = text_of(HOSTS), two = "ranks: 2";
  std::ofstream(on_one_host.machine_file) << std::string(hosts).replace(hosts.find(two), two.size(), "ranks: 4");
  const double at_once = work_of_updates(tests::compiled(on_one_host).program);
  EXPECT_GT(at_once, 0);
  EXPECT_NEAR(work_of_updates(tests::compiled(rows()).program), at_once, 1e-9 * at_once);
}

/// Fills of a buffer's memory, `turns` of it, at the end of each turn of the loop that waits.
void add_fill(Program& program, BufferId buffer, std::vector<TurnIndex> turns) {
  Steps& steps = train(program);
  Steps& body = std::get<ForStep>(steps[loop_that_waits(steps)].what).body;
  body.push_back(Step{FillStep{{buffer, std::move(turns)}, 0}, Part::update, {}, "", {}});
}

TEST(UpdatesByTurns, the_verifier_finds_one_that_touches_what_other_turns_wait_for) {
  Program program = tests::compiled(rows()).program;
  const Steps& steps = train(program);
  const Step wait = std::get<ForStep>(steps[loop_that_waits(steps)].what).body.front();
  add_fill(program, movements(wait).front().to.buffer, {{LoopId{}, 1}});  // always the second slot
  expect_message(program, "while this is under way");
}

TEST(UpdatesByTurns, the_verifier_finds_one_that_touches_what_another_call_moves) {
  Program program = tests::compiled(rows()).program;
  const Steps& steps = train(program);
  const Step other = steps[loop_that_waits(steps) + 1];  // waits for the gradient of the table
  ASSERT_TRUE(is_in(other, Phase::wait));
  add_fill(program, movements(other).front().to.buffer, {});
  expect_message(program, "while this is under way");
}

/// The call of the forward part that is waited for behind it, in the list of the training step.
size_t call_of_results(Program& program) {
  const Steps& steps = train(program);
  for (size_t i = 0; i < forward_steps(steps); ++i) {
    if (!is_in(steps[i], Phase::start)) continue;
    const size_t wait = wait_of(steps, i);
    if (wait > forward_steps(steps) && wait < steps.size()) return i;
  }
  throw std::logic_error("the forward part waits for all it starts");
}

TEST(ResultsOfForward, are_waited_for_by_each_routine_that_begins_with_it) {
  Program program = tests::compiled(rows()).program;
  const Steps& steps = train(program);
  const size_t call = call_of_results(program);
  EXPECT_EQ(movements(steps[call]).size(), 2U);  // of the loss, and of the accuracy
  EXPECT_TRUE(is_in(steps[wait_of(steps, call)], Phase::wait));
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
