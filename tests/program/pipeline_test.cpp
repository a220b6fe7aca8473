// Pipelines: stages that compute at their own ranks, in the order of a schedule, equal to one rank.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>

#include "codegen/compile.h"
#include "codegen/program/pipeline_slots.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"
#include "tests/program/messages.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::compiled;
using tests::expect_message;

CompileRequest deep(const std::string& layout, std::map<std::string, int64_t> mesh = {}) {
  CompileRequest request;
  request.files = {PIPELINE};
  request.precision = "f64";
  request.layout = layout;
  request.mesh = std::move(mesh);
  request.wanted = {"logits", "layer.h", "grad(wte)", "grad(scale)", "grad(layer.w)", "grad(layer.v)", "grad_norm"};
  return request;
}

/// The pipeline of the training step.
const ForStep& pipeline_of(const Program& program) {
  const ForStep* found = nullptr;
  for_each_step(program.routines[program.step().run].steps, [&](const Step& step) {
    if (const auto* loop = std::get_if<ForStep>(&step.what); loop && loop->order) found = loop;
  });
  if (found == nullptr) throw std::out_of_range("no pipeline");
  return *found;
}

TEST(Pipeline, equals_one_rank) {
  for (const int64_t stages : {1, 2, 3, 4})
    for (const char* layout : {"fill", "turns", "eager"})
      tests::expect_as_one_rank(deep(layout, {{"pipe", stages}}),
                                std::string(layout) + " of " + std::to_string(stages));
}

TEST(Pipeline, stages_of_unlike_length) {
  CompileRequest request = deep("turns", {{"pipe", 3}});
  request.set = {{"layer", "7"}};
  tests::expect_as_one_rank(request, "7 layers on 3 stages");
  request.set = {{"batch", "24"}, {"layer", "5"}};
  tests::expect_as_one_rank(request, "5 layers on 3 stages");
}

/// Stages that lie in turn, as many as layers, fewer, and of unlike length; more ranks than micro-batches of a round.
TEST(Pipeline, several_stages_of_a_rank) {
  for (const int64_t ranks : {1, 2, 3, 4})
    for (const char* layout : {"inter", "odd", "breadth", "circle"})
      for (const char* layers : {"8", "9"}) {
        CompileRequest request = deep(layout, {{"pipe", ranks}});
        request.set = {{"layer", layers}};
        tests::expect_as_one_rank(request, fmt::format("{} of {}, {} layers", layout, ranks, layers));
      }
  CompileRequest request = deep("thrice");
  request.set = {{"layer", "7"}};
  tests::expect_as_one_rank(request, "three stages a rank");
  request = deep("uneven");
  request.set = {{"layer", "8"}};
  tests::expect_as_one_rank(request, "stages cut by hand");
}

/// W where the schedule puts it; in a V the two stages of its turning point are on one rank, and both ends are.
TEST(Pipeline, weights_gradients_at_a_time_of_their_own) {
  for (const int64_t ranks : {1, 2, 3, 4})
    for (const char* layout : {"half", "ahead", "vee", "sent"}) {
      CompileRequest request = deep(layout, {{"pipe", ranks}});
      request.set = {{"layer", "9"}};
      tests::expect_as_one_rank(request, fmt::format("{} of {}", layout, ranks));
    }
}

TEST(Pipeline, with_other_axes_in_its_stages) {
  for (const char* layout : {"both", "zero", "zeros", "chunks", "apart"})
    for (const auto& [data, pipe, model] : {std::tuple{2, 2, 2}, {2, 2, 1}, {1, 2, 3}, {1, 4, 2}}) {
      CompileRequest request = deep(layout, {{"data", data}, {"pipe", pipe}, {"model", model}});
      request.set = {{"layer", "8"}};
      tests::expect_as_one_rank(request, fmt::format("{} of {} x {} x {}", layout, data, pipe, model));
    }
}

/// F keeps what came into its stage alone, and R makes the rest again: of all micro-batches, or of all but the last.
TEST(Pipeline, stages_computed_again) {
  for (const int64_t ranks : {1, 2, 3, 4})
    for (const char* layout :
         {"again", "more", "last", "rounds", "rest", "halved", "turned", "layers", "values", "sends"}) {
      CompileRequest request = deep(layout, {{"pipe", ranks}});
      request.set = {{"layer", "9"}};
      tests::expect_as_one_rank(request, fmt::format("{} of {}", layout, ranks));
    }
  for (const int64_t ranks : {1, 2, 3, 4})
    for (const char* layout : {"groups", "parts"}) {
      CompileRequest request = deep(layout, {{"pipe", ranks}});
      for (const char* layers : {"8", "14"}) {
        request.set = {{"layer", layers}};
        tests::expect_as_one_rank(request, fmt::format("{} of {} layers on {}", layout, layers, ranks));
      }
    }
  for (const int64_t ranks : {1, 2, 4})
    for (const char* layout : {"rows", "valley", "circles"}) {
      CompileRequest request = deep(layout, {{"pipe", ranks}});
      request.set = {{"layer", "16"}};
      tests::expect_as_one_rank(request, fmt::format("{} of {}", layout, ranks));
    }
  tests::expect_as_one_rank(deep("headed"), "a stage without turns");
  for (const auto& [layout, ranks] : {std::pair{"pairs", 2}, {"row", 3}, {"row", 2}}) {
    CompileRequest request = deep(layout, {{"pipe", ranks}});
    request.files = {CHAIN};
    request.set = {{"enc", "8"}, {"dec", "4"}};
    request.wanted = {"h", "g", "grad(enc.up)", "grad(dec.w)", "grad(scale)", "grad_norm"};
    tests::expect_as_one_rank(request, fmt::format("{} of two loops on {}", layout, ranks));
  }
  tests::expect_as_one_rank(deep("written"), "one of two stages");
  for (const char* layout : {"less", "few"})
    for (const auto& [data, pipe, model] : {std::tuple{2, 2, 2}, {2, 2, 1}, {1, 4, 2}}) {
      CompileRequest request = deep(layout, {{"data", data}, {"pipe", pipe}, {"model", model}});
      request.set = {{"layer", "8"}};
      tests::expect_as_one_rank(request, fmt::format("{} of {} x {} x {}", layout, data, pipe, model));
    }
}

/// What F needs no more behind its turns goes from stage to stage all the same, where R begins with it.
TEST(Pipeline, handed_on_for_what_is_computed_again) {
  for (const int64_t stages : {1, 2, 4})
    for (const char* layout : {"fill", "turns", "last", "chunks", "half", "vee"}) {
      CompileRequest request = deep(layout, {{"pipe", stages}});
      request.files = {HANDED_ON};
      request.set = {{"layer", "8"}};
      request.wanted = {"place", "grad(w)", "grad(table)", "grad(layer.gain)", "grad_norm"};
      tests::expect_as_one_rank(request, fmt::format("{} of {}", layout, stages));
    }
}

/// What they make of a turn stays at their stage: its ranks alone come there.
TEST(Pipeline, loops_at_one_stage) {
  for (const int64_t stages : {1, 2, 3})
    for (const char* layout : {"fill", "turns", "chunks", "half", "again", "last", "early"}) {
      CompileRequest request = deep(layout, {{"data", 2}, {"pipe", stages}});
      request.files = {TWO_LOOPS};
      request.set = {{"layer", "6"}, {"start", "3"}};
      request.wanted = {"h", "g", "grad(start.u)", "grad(layer.w)", "grad(end.v)", "grad(scale)", "grad_norm"};
      tests::expect_as_one_rank(request, fmt::format("{} of {}", layout, stages));
    }
}

/// How many slots the values have that stages hand on: "h", then its gradient.
std::vector<int64_t> slots_of(const CompileRequest& request) {
  const Program program = compiled(request).program;
  const ForStep& pipeline = pipeline_of(program);
  std::vector<int64_t> slots;
  for (const MessageStep* message : handed_on(pipeline))
    slots.push_back(program.sharded.graph.dim(slots_of(program, pipeline, *message).dim).size);
  return slots;
}

/// A slot for what waits, and one for what is sent meanwhile; what the head's gradient needs, at the last stage, has
/// one for each micro-batch under way there.
TEST(Pipeline, slots_of_what_is_handed_on) {
  EXPECT_THAT(slots_of(deep("fill")), testing::ElementsAre(4, 2));
  EXPECT_THAT(slots_of(deep("turns")), testing::ElementsAre(2, 2));
  EXPECT_THAT(slots_of(deep("eager")), testing::ElementsAre(3, 3));
  EXPECT_THAT(slots_of(deep("again")), testing::ElementsAre(2, 2));
  EXPECT_THAT(slots_of(deep("breadth")), testing::ElementsAre(4, 4));
}

/// What is under way at most is what the schedule says, and what lies in slots has one for each.
TEST(Pipeline, memory_follows_the_schedule) {
  const Program program = compiled(deep("turns")).program;
  const auto stash = std::ranges::find_if(program.buffers, [&](const Buffer& buffer) {
    return buffer.dims.size() > 1 && program.sharded.graph.dim(buffer.dims[0].dim).name == "in_flight" &&
           program.sharded.graph.dim(buffer.dims[1].dim).name == "layer";
  });
  ASSERT_NE(stash, program.buffers.end());
  EXPECT_EQ(program.sharded.graph.dim(stash->dims[0].dim).size, 2);
  EXPECT_EQ(stash->dims[1].placement.axes.size(), 1u);
}

/// Of one that only evaluates a micro-batch is computed while another is sent.
TEST(Pipeline, evaluation_has_two_slots) {
  const Program program = compiled(deep("turns")).program;
  const ForStep* found = nullptr;
  for_each_step(program.routines[program.entry("evaluate")->run].steps, [&](const Step& step) {
    if (const auto* loop = std::get_if<ForStep>(&step.what); loop && loop->order) found = loop;
  });
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->order->slots, 2);
  EXPECT_EQ(row_text(found->order->schedule.ranks[0]), "0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2 0F3 0SEND_F3");
}

/// Each rank computes its own layers alone: inside the pipeline nothing is sent over its axis but messages.
TEST(Pipeline, only_messages_go_between_stages) {
  const Program program = compiled(deep("both")).program;
  const AxisId pipe = program.sharded.layout.pipeline.axis;
  int messages = 0, loops = 0;
  for_each_step(pipeline_of(program).body, [&](const Step& step) {
    if (const auto* one = std::get_if<CollectiveStep>(&step.what)) {
      EXPECT_FALSE(contains(one->axes, pipe));
    }
    messages += std::holds_alternative<MessageStep>(step.what) ? 1 : 0;
    if (const auto* loop = std::get_if<ForStep>(&step.what)) {
      EXPECT_TRUE(loop->own);
      ++loops;
    }
  });
  EXPECT_EQ(messages, 4);  // h and its gradient, each sent and received
  EXPECT_EQ(loops, 2);
}

// ---- what verify_program says of pipelines that are out of order

ForStep& pipeline_of(Program& program) { return const_cast<ForStep&>(pipeline_of(std::as_const(program))); }

/// Where the list of a stage has the action.
auto place(std::vector<Action>& list, ActionKind kind, int32_t micro_batch) {
  return std::ranges::find_if(list,
                              [&](const Action& one) { return one.kind == kind && one.micro_batch == micro_batch; });
}

TEST(Pipeline, lists_have_every_action_once) {
  Program program = compiled(deep("turns")).program;
  std::vector<Action>& list = pipeline_of(program).order->schedule.ranks[1];
  list.erase(place(list, ActionKind::backward, 2));
  expect_message(program, "rank 1 has 1B2 not once in its list");
}

TEST(Pipeline, messages_come_before_their_readers_and_behind_their_makers) {
  Program program = compiled(deep("turns")).program;
  std::vector<Action>& list = pipeline_of(program).order->schedule.ranks[1];
  std::iter_swap(place(list, ActionKind::receive_forward, 0), place(list, ActionKind::forward, 0));
  expect_message(program, "rank 1 receives what 1F0 needs behind it");
  program = compiled(deep("turns")).program;
  std::vector<Action>& other = pipeline_of(program).order->schedule.ranks[1];
  std::iter_swap(place(other, ActionKind::send_backward, 0), place(other, ActionKind::backward, 0));
  expect_message(program, "rank 1 sends what 1B0 gives before it");
}

/// A receive that is posted too early comes into a slot that is in use.
TEST(Pipeline, slots_are_free_when_messages_come) {
  Program program = compiled(deep("turns")).program;
  std::vector<Action>& list = pipeline_of(program).order->schedule.ranks[1];
  const auto third = place(list, ActionKind::receive_forward, 2);
  std::rotate(place(list, ActionKind::backward, 0), third, third + 1);
  expect_message(program, "rank 1: 1RECV_F2 stands before 1B0, which uses the same slot");
}

TEST(Pipeline, every_rank_comes_to_its_end) {
  Program program = compiled(deep("turns")).program;
  std::vector<Action>& list = pipeline_of(program).order->schedule.ranks[1];
  list.erase(place(list, ActionKind::receive_forward, 2));
  expect_message(program, "ranks wait for each other for ever: rank 1 at 1F2 waits for 1RECV_F2 of rank 1");
}

TEST(Pipeline, nothing_touches_what_is_under_way) {
  for (const bool sends : {false, true}) {
    Program program = compiled(deep("turns")).program;
    Steps& body = std::get<ActionStep>(pipeline_of(program).body.front().what).body;
    const auto message = std::ranges::find_if(body, [&](const Step& step) {
      const auto* one = std::get_if<MessageStep>(&step.what);
      return one && one->sends == sends;
    });
    ASSERT_NE(message, body.end());
    const Access value = std::get<MessageStep>(message->what).value;
    body.insert(sends ? message + 1 : message, Step{FillStep{value, 0}, Part::forward, {}, {}, {}});
    expect_message(program, sends ? "writes what may be under way: send to the stage behind"
                                  : "touches what may be coming in: receive from the stage before");
  }
}

/// The ranks of a group would be at other micro-batches.
TEST(Pipeline, no_collective_goes_among_stages) {
  Program program = compiled(deep("both")).program;
  const AxisId pipe = program.sharded.layout.pipeline.axis;
  CollectiveStep* found = nullptr;
  for_each_step(pipeline_of(program).body, [&](Step& step) {
    if (auto* one = std::get_if<CollectiveStep>(&step.what)) found = one;
  });
  ASSERT_NE(found, nullptr);
  found->axes = {pipe};
  expect_message(program, "waits for stages that are at other micro-batches");
}

TEST(Pipeline, messages_lie_in_the_arena) {
  Program program = compiled(deep("turns")).program;
  program.buffer(handed_on(pipeline_of(program)).front()->value.buffer).space = Space::own;
  expect_message(program, "outside the arena");
}

void expect_same_bits(const std::string& file, const std::vector<const char*>& layouts) {
  const auto run = [&](const char* layout) {
    CompileRequest request = deep(layout);
    request.files = {file};
    request.wanted.clear();
    return tests::run(compiled(request).program);
  };
  const InterpretResult first = run(layouts.front());
  for (const char* layout : std::span(layouts).subspan(1)) {
    const InterpretResult other = run(layout);
    for (const auto& [name, array] : first.after) EXPECT_EQ(array.data, other.after.at(name).data) << layout << name;
    EXPECT_EQ(first.metrics, other.metrics) << layout;
  }
}

/// Gradients are added up micro-batch by micro-batch under every schedule. A model whose layers share nothing shows
/// that of several stages a rank.
TEST(Pipeline, schedules_agree_to_the_bit) {
  expect_same_bits(PIPELINE, {"fill", "turns", "half", "sent"});
  expect_same_bits(CUT, {"inter", "breadth", "circle"});
}

}  // namespace
}  // namespace mesh
