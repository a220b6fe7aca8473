// Collectives that are under way while other steps are executed, and what the verifier says where that goes wrong.
#include "codegen/program/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "codegen/compile.h"
#include "codegen/layout/mesh.h"
#include "codegen/program/accesses.h"
#include "codegen/program/exposed.h"
#include "codegen/program/extent.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"
#include "tests/program/messages.h"

namespace mesh {
namespace {

using tests::expect_message;
using Phase = CollectiveStep::Phase;

/// A training step whose parameters, sequence and gradients are split, so that much is moved.
Program overlapping() {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh"};
  request.layout = "sequence";
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> made = compile(request, sources, sink);
  if (!made) throw std::runtime_error(sink.diagnostics().front().message);
  return std::move(made->program);
}

/// The same on hosts of two ranks: each turn of the backward loop starts the sums over hosts of its gradients.
Program between_hosts() {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh"};
  request.mesh = {{"data", 2}, {"model", 2}};
  request.machine_file = HOSTS;
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> made = compile(request, sources, sink);
  if (!made) throw std::runtime_error(sink.diagnostics().front().message);
  return std::move(made->program);
}

/// Parameters, gradients and moments are split over hosts: a turn of a loop gathers what it reads, and scatters sums.
Program apart(std::optional<int64_t> memory = {}, const std::string& layout = "zero") {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh", APART};
  request.layout = layout;
  request.mesh = {{"data", 2}};
  request.machine_file = APART_HOSTS;
  request.memory = memory;
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> made = compile(request, sources, sink);
  if (!made) throw std::runtime_error(sink.diagnostics().front().message);
  return std::move(made->program);
}

double exposed_seconds(const Program& program) { return mesh::exposed_seconds(program, predict(program)); }

/// A loop of the training step whose turns start and wait for each other's, in the list around it.
struct Turns {
  Steps* steps = nullptr;
  size_t loop = 0;
  ForStep& of(size_t at) const { return std::get<ForStep>((*steps)[at].what); }
  Steps& body() const { return of(loop).body; }
  /// In the body.
  size_t call(Phase phase, bool of_other_turn) const {
    const auto found = std::ranges::find_if(body(), [&](const Step& step) {
      return !movements(step).empty() && movements(step).front().phase == phase &&
             movements(step).front().other_turn.has_value() == of_other_turn;
    });
    if (found == body().end()) throw std::logic_error("the loop has no such call");
    return static_cast<size_t>(found - body().begin());
  }
  void erase(size_t at) const { body().erase(body().begin() + static_cast<std::ptrdiff_t>(at)); }
  /// The first loop beside it of which this turn alone is made.
  void erase_only(ForStep::Only only) const {
    const auto found = std::ranges::find_if(*steps, [&](const Step& step) {
      const auto* other = std::get_if<ForStep>(&step.what);
      return other && other->loop == of(loop).loop && other->only == only;
    });
    if (found == steps->end()) throw std::logic_error("nothing stands beside the loop");
    steps->erase(found);
  }
};

/// The forward loop, or the one backwards.
Turns turns_of(Program& program, bool backwards) {
  Steps& steps = program.routines[program.step().run].steps;
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto* loop = std::get_if<ForStep>(&steps[i].what);
        loop && loop->only == ForStep::Only::every && loop->reverse == backwards && loop->body.size() > 10)
      return {&steps, i};
  throw std::logic_error("the program has no such loop");
}

/// The loop of a list whose turns start `calls` that are waited for behind it, and the loop that waits.
struct Behind {
  Steps* steps = nullptr;
  size_t starts = 0, waits = 0;
  Steps& body(size_t at) const { return std::get<ForStep>((*steps)[at].what).body; }
  /// In the body that starts it.
  size_t call() const {
    const auto started = std::ranges::find_if(body(starts), [&](const Step& step) {
      return !movements(step).empty() && movements(step).front().phase == Phase::start &&
             movements(step).front().step == movements(body(waits).front()).front().step;
    });
    return static_cast<size_t>(started - body(starts).begin());
  }
};

Behind behind_a_loop(Program& program) {
  Behind found;
  Steps& steps = program.routines[program.step().run].steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto* loop = std::get_if<ForStep>(&steps[i].what);
    if (!loop || loop->body.size() != 1 || movements(loop->body.front()).empty()) continue;
    found.waits = i;
    for (size_t before = 0; before < i; ++before)
      if (const auto* other = std::get_if<ForStep>(&steps[before].what); other && other->loop == loop->loop)
        found.starts = before, found.steps = &steps;
  }
  if (!found.steps) throw std::logic_error("the program waits behind no loop");
  return found;
}

/// A list of steps with a collective that is started at one place in it and waited for at another.
struct Pair {
  Steps* steps = nullptr;
  size_t start = 0, wait = 0;
};

/// The first whose wait has a step behind it that `is_wanted`.
template <class IsWanted>
Pair find_pair(Program& program, const IsWanted& is_wanted) {
  Pair found;
  for_each_list(program, [&](Steps& steps) {
    for (size_t i = 0; i < steps.size() && !found.steps; ++i) {
      const auto call = movements(steps[i]);
      if (call.empty() || call.front().phase != Phase::start) continue;
      const size_t wait = wait_of(steps, i);
      if (wait < steps.size() && is_wanted(steps, i, wait)) found = {&steps, i, wait};
    }
  });
  if (!found.steps) throw std::logic_error("the program has no such collective");
  return found;
}

Pair any_pair(Program& program) {
  return find_pair(program, [](const Steps&, size_t, size_t) { return true; });
}

/// Whether two buffers lie, in part, at the same addresses.
bool share_bytes(const Program& program, const Access& a, const Access& b) {
  const Buffer &one = program.buffer(storage(program, a.buffer)), &other = program.buffer(storage(program, b.buffer));
  const auto end = [](const Buffer& of) {
    return of.offset + of.elements * static_cast<int64_t>(meshrt::size_of(of.type));
  };
  return &one != &other && one.space == other.space && one.offset < end(other) && other.offset < end(one);
}

TEST(Overlap, starts_and_waits_where_nothing_in_between_needs_the_result) {
  Program program = overlapping();
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  int started = 0;
  for_each_list(program, [&](Steps& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto call = movements(steps[i]);
      if (call.empty() || call.front().phase == Phase::wait) continue;
      if (call.front().phase == Phase::start) {
        ++started;
        ASSERT_LT(wait_of(steps, i), steps.size());
        continue;
      }
      // One that is not started is needed by the very next step that computes something.
      size_t next = i + 1;
      while (next < steps.size() && !movements(steps[next]).empty() && !common_memory(program, steps[i], steps[next]))
        ++next;
      if (next < steps.size() && (part_of(steps[next]) == Part::forward) == (part_of(steps[i]) == Part::forward)) {
        EXPECT_TRUE(common_memory(program, steps[i], steps[next]));
      }
    }
  });
  EXPECT_GT(started, 0);
}

TEST(Overlap, the_verifier_finds_a_step_that_touches_what_is_under_way) {
  Program program = overlapping();
  const Pair pair = find_pair(program, [&](const Steps& steps, size_t start, size_t wait) {
    return wait + 1 < steps.size() && common_memory(program, steps[start], steps[wait + 1]);
  });
  std::swap((*pair.steps)[pair.wait], (*pair.steps)[pair.wait + 1]);
  expect_message(program, "while this is under way");
}

TEST(Overlap, the_verifier_finds_a_collective_that_is_never_waited_for) {
  Program program = overlapping();
  const Pair pair = any_pair(program);
  pair.steps->erase(pair.steps->begin() + static_cast<std::ptrdiff_t>(pair.wait));
  expect_message(program, "is never waited for");
}

TEST(Overlap, the_verifier_finds_a_wait_for_nothing) {
  Program program = overlapping();
  const Pair pair = any_pair(program);
  pair.steps->erase(pair.steps->begin() + static_cast<std::ptrdiff_t>(pair.start));
  expect_message(program, "waits for what was not started");
}

TEST(Overlap, waits_behind_a_loop_for_what_its_turns_started) {
  Program program = between_hosts();
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  const Behind found = behind_a_loop(program);
  const Steps& body = found.body(found.starts);
  ASSERT_LT(found.call(), body.size());
  const auto moved = movements(body[found.call()]);
  EXPECT_EQ(moved.size(), 8U);  // in one call, of all of a layer but two biases, which are scattered over both axes
  for (const CollectiveStep& one : moved) {
    EXPECT_EQ(one.kind, CollectiveKind::all_reduce);
    EXPECT_EQ(axes_text(program.sharded.layout.mesh, one.axes, ", "), "data");
  }
}

TEST(Overlap, the_verifier_finds_turns_that_are_never_waited_for) {
  Program program = between_hosts();
  const Behind found = behind_a_loop(program);
  found.steps->erase(found.steps->begin() + static_cast<std::ptrdiff_t>(found.waits));
  expect_message(program, "is never waited for");
}

TEST(Overlap, the_verifier_finds_a_wait_for_turns_that_started_nothing) {
  Program program = between_hosts();
  const Behind found = behind_a_loop(program);
  Steps& body = found.body(found.starts);
  body.erase(body.begin() + static_cast<std::ptrdiff_t>(found.call()));
  expect_message(program, "waits for what was not started");
}

TEST(Overlap, the_verifier_finds_a_turn_that_touches_what_another_has_under_way) {
  Program program = between_hosts();
  const Behind found = behind_a_loop(program);
  Steps& body = found.body(found.starts);
  const Access other{movements(body[found.call()]).front().to.buffer, {{LoopId{}, 1}}};  // always the second slot
  body.insert(body.begin(), Step{FillStep{other, 0}, Part::input_gradient, {}, "", {}});
  expect_message(program, "while this is under way");
}

/// Also of loops in loops whose turns hand calls over, each call ends when the wire has carried it.
TEST(Overlap, no_more_is_hidden_than_is_computed_in_loops_within_loops) {
  CompileRequest request;
  request.files = {testing::TempDir() + "/loops_within_loops.mesh"};
  std::ofstream(request.files[0]) << R"(
dim batch = 8192, wide = 64, hid = 64, group = 3, layer = 4
model M {
  input x : real[batch, wide]
  input y : real[batch, wide]
  h = x
  repeat group {
    param w : real[wide, hid] = fan_in[wide]
    param z : real[hid, wide] = fan_in[hid]
    repeat layer {
      param u : real[wide, hid] = fan_in[wide]
      param d : real[hid, wide] = fan_in[hid]
      h = h + dot[hid](tanh(dot[wide](h, u)), d)
    }
    h = h + dot[hid](tanh(dot[wide](h, w)), z)
  }
  loss = mean[batch](sum[wide]((h - y) ^ 2))
  minimize loss with sgd(lr: 0.01)
}
mesh hosts { data: 4 }
layout held on hosts { batch -> data; params { hid -> data } }
)";
  request.machine_file = testing::TempDir() + "/slow_wire.yaml";
  std::ofstream(request.machine_file)
      << "name: apart\ngflops: { f32: 2, f64: 2 }\nnode: { ranks: 1 }\nnetwork: { latency_us: 10, gbs: 0.0001 }\n";
  const Compiled compiled = tests::compiled(request);
  int handing = 0;
  for_each_step(compiled.program.routines[compiled.program.step().run].steps, [&](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    handing += loop && hands_over(*loop);
  });
  EXPECT_EQ(handing, 4);  // of both loops, forwards and backwards
  const Prediction step = predict(compiled.program);
  EXPECT_GE(mesh::exposed_seconds(compiled.program, step), step.communication_seconds - step.compute_seconds);
}

TEST(Overlap, turns_gather_for_the_next_one_and_sum_up_during_it) {
  Program program = apart();
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  for (const bool backwards : {false, true}) {
    const Turns turns = turns_of(program, backwards);
    std::map<uint32_t, std::multiset<std::pair<Phase, int>>> calls;
    for (const Step& step : turns.body())
      for (const CollectiveStep& one : movements(step))
        calls[one.step].insert({one.phase, one.other_turn ? one.other_turn->away : 0});
    const int next = backwards ? -1 : 1;
    int gathers = 0, sums = 0;
    for (const auto& [step, phases] : calls) {
      const bool gathered = program.sharded.steps[step].kind == CollectiveKind::all_gather;
      (gathered ? gathers : sums) += 1;
      if (gathered) EXPECT_EQ(phases, (std::multiset<std::pair<Phase, int>>{{Phase::start, next}, {Phase::wait, 0}}));
      else EXPECT_EQ(phases, (std::multiset<std::pair<Phase, int>>{{Phase::start, 0}, {Phase::wait, -next}}));
    }
    EXPECT_EQ(gathers, backwards ? 8 : 10);  // backwards nothing reads the biases
    EXPECT_EQ(sums, backwards ? 10 : 0);
  }
}

TEST(Overlap, turns_hand_over_beside_sums_that_outlast_the_loop_and_within_micro_batches) {
  Program some = apart({}, "some");
  EXPECT_EQ(verify_program(some), std::vector<std::string>{});
  const Turns turns = turns_of(some, true);
  turns.call(Phase::wait, true);
  std::set<uint32_t> started, waited;
  for (const Step& step : turns.body())
    for (const CollectiveStep& one : movements(step))
      if (!one.other_turn) (one.phase == Phase::start ? started : waited).insert(one.step);
  std::set<uint32_t> waited_later;
  for (const Step& step : turns.body())
    for (const CollectiveStep& one : movements(step))
      if (one.other_turn && one.phase == Phase::wait) waited_later.insert(one.step);
  const auto outlasts = [&](uint32_t step) { return !waited.contains(step) && !waited_later.contains(step); };
  EXPECT_GT(std::ranges::count_if(started, outlasts), 0);

  Program parts = apart({}, "parts");
  EXPECT_EQ(verify_program(parts), std::vector<std::string>{});
  int handed_over = 0;
  for_each_list(parts, [&](Steps& steps) {
    for (const Step& step : steps) handed_over += !movements(step).empty() && movements(step).front().other_turn;
  });
  EXPECT_GT(handed_over, 20);
}

TEST(Overlap, turns_hand_over_only_where_their_memory_has_room) {
  const Program program = apart();
  const Program small = apart(program.memory.peak() - 1);
  EXPECT_LT(small.memory.peak(), program.memory.peak());
  EXPECT_LT(exposed_seconds(program), 0.25 * exposed_seconds(small));
}

/// By the plan's offsets alone: from turn to turn nobody else uses the place that a call of another turn moves.
TEST(Overlap, places_of_turns_are_nobody_elses_while_the_loop_is_made) {
  Program program = apart();
  int compared = 0;
  for (const bool backwards : {false, true}) {
    const Turns turns = turns_of(program, backwards);
    for (const Step& call : turns.body()) {
      if (movements(call).empty() || !movements(call).front().other_turn) continue;
      for_each_access(std::as_const((*turns.steps)[turns.loop]), [&](const Access& used, Use) {
        for_each_access(call, [&](const Access& moved, Use) {
          EXPECT_FALSE(share_bytes(program, used, moved))
              << program.buffer(used.buffer).name << " and " << program.buffer(moved.buffer).name;
          ++compared;
        });
      });
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(Overlap, the_verifier_finds_turns_that_are_not_handed_what_they_wait_for) {
  const Program whole = apart();
  Program program = whole;
  turns_of(program, false).erase_only(ForStep::Only::first);
  expect_message(program, "waits for what was not started");
  program = whole;
  const Turns forward = turns_of(program, false);
  forward.erase(forward.call(Phase::start, true));
  expect_message(program, "waits for what was not started");
  program = whole;
  turns_of(program, true).erase_only(ForStep::Only::last);
  expect_message(program, "is never waited for");
}

TEST(Overlap, the_verifier_finds_a_turn_that_uses_a_place_too_early) {
  const Program whole = apart();
  Program program = whole;
  const Turns forward = turns_of(program, false);
  const size_t starts = forward.call(Phase::start, true);
  std::swap(forward.body()[starts], forward.body()[starts - 1]);  // before the step that reads this turn's
  expect_message(program, "while this is under way");
  program = whole;
  const Turns back = turns_of(program, true);
  const size_t waits = back.call(Phase::wait, true);
  std::swap(back.body()[waits], back.body()[waits + 1]);  // behind the step that writes this turn's
  expect_message(program, "while this is under way");
}

TEST(Exposed, is_less_where_turns_hide_the_sums_of_those_before) {
  Program program = between_hosts();
  const Prediction step = predict(program);
  const double hidden = exposed_seconds(program, step);
  const Behind found = behind_a_loop(program);
  for (CollectiveStep& one : movements(found.body(found.starts)[found.call()])) one.phase = Phase::whole;
  found.steps->erase(found.steps->begin() + static_cast<std::ptrdiff_t>(found.waits));
  EXPECT_LT(hidden, 0.5 * exposed_seconds(program, step));
}

/// By the plan's offsets alone: what is moved lies in no memory that a step in between uses for something else.
TEST(Overlap, memory_is_nobody_elses_until_the_wait) {
  Program program = overlapping();
  int compared = 0;
  for_each_list(program, [&](Steps& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto call = movements(steps[i]);
      if (call.empty() || call.front().phase != Phase::start) continue;
      for (size_t k = i + 1; k < wait_of(steps, i); ++k)
        for_each_access(std::as_const(steps[k]), [&](const Access& used, Use) {
          for_each_access(std::as_const(steps[i]), [&](const Access& moved, Use) {
            EXPECT_FALSE(share_bytes(program, used, moved))
                << program.buffer(used.buffer).name << " and " << program.buffer(moved.buffer).name;
            ++compared;
          });
        });
    }
  });
  EXPECT_GT(compared, 0);
}

/// What steps compute between a collective's start and its wait.
double computed_meanwhile(const Steps& steps, size_t start) {
  double seconds = 0;
  for (size_t i = start + 1; i < wait_of(steps, start); ++i) seconds += steps[i].seconds;
  return seconds;
}

TEST(Exposed, is_what_steps_until_the_wait_do_not_hide) {
  Program program = overlapping();
  const Steps& steps = program.routines[program.step().run].steps;
  const Pair pair = find_pair(program, [&](const Steps& in, size_t start, size_t wait) {
    const auto stands_alone = [](const Step& step) { return !has_bodies(step) && movements(step).empty(); };
    return &in == &steps && computed_meanwhile(in, start) > 0 &&
           std::all_of(in.begin() + static_cast<std::ptrdiff_t>(start) + 1,
                       in.begin() + static_cast<std::ptrdiff_t>(wait), stands_alone);
  });
  const double hidden = computed_meanwhile(steps, pair.start);
  Prediction only;  // as if nothing else took time
  only.collectives.emplace_back();
  only.collectives[0].call = movements(steps[pair.start]).front().step;
  for (const double seconds : {0.5 * hidden, hidden, 3 * hidden}) {
    only.collectives[0].seconds = seconds;
    EXPECT_NEAR(exposed_seconds(program, only), std::max(0.0, seconds - hidden), 1e-9 * hidden);
  }
}

TEST(Exposed, is_all_of_a_program_that_waits_at_once_and_less_where_it_does_not) {
  Program program = overlapping();
  const Prediction step = predict(program);
  const double overlapped = exposed_seconds(program, step);
  EXPECT_LT(overlapped, 0.95 * step.communication_seconds);
  EXPECT_GT(overlapped, 0);
  for_each_list(program, [&](Steps& steps) {
    std::erase_if(
        steps, [](const Step& one) { return !movements(one).empty() && movements(one).front().phase == Phase::wait; });
    for (Step& one : steps)
      for (CollectiveStep& moved : movements(one)) moved.phase = Phase::whole;
  });
  EXPECT_NEAR(exposed_seconds(program, step), step.communication_seconds, 1e-9 * step.communication_seconds);
}

TEST(Exposed, counts_the_work_of_steps_as_the_prediction_does) {
  const Program program = overlapping();
  double seconds = 0;
  const std::function<void(const Steps&, double)> add = [&](const Steps& steps, double times) {
    for (const Step& step : steps) {
      seconds += times * step.seconds;
      const auto* loop = std::get_if<ForStep>(&step.what);
      for (const Steps* body : bodies(step)) add(*body, loop ? times * static_cast<double>(loop->turns) : times);
    }
  };
  add(program.routines[program.step().run].steps, 1);
  const double predicted = predict(program.sharded).compute_seconds;
  EXPECT_NEAR(seconds, predicted, 0.02 * predicted);  // formulas that several steps compute count once
}

TEST(CommonMemory, tells_slots_apart) {
  Program program = overlapping();
  const auto first = std::ranges::find_if(program.buffers, [](const Buffer& one) { return one.dims.size() > 1; });
  const BufferId buffer{static_cast<uint32_t>(first - program.buffers.begin())};
  const LoopId loop{0};
  const auto fill = [&](TurnIndex turn) { return Step{FillStep{{buffer, {turn}}, 0}, Part::forward, {}, "", {}}; };
  EXPECT_TRUE(common_memory(program, fill({loop}), fill({loop})));
  EXPECT_FALSE(common_memory(program, fill({loop, 0, 2}), fill({loop, 1, 2})));
  EXPECT_TRUE(common_memory(program, fill({loop, 0, 2}), fill({loop, 2, 2})));
  EXPECT_FALSE(common_memory(program, fill({LoopId{}, 0}), fill({LoopId{}, 1})));
  EXPECT_TRUE(common_memory(program, fill({loop}), fill({LoopId{}, 1})));
}

}  // namespace
}  // namespace mesh
