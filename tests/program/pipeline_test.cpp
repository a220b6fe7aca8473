// Pipelines: stages that compute at their own ranks, in the order of a schedule, equal to one rank.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/compile.h"
#include "codegen/program/pipeline_slots.h"
#include "codegen/program/walk.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::compiled;

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

TEST(Pipeline, with_other_axes_in_its_stages) {
  for (const auto& [data, pipe, model] : {std::tuple{2, 2, 2}, {2, 2, 1}, {1, 2, 3}, {1, 4, 2}})
    tests::expect_as_one_rank(deep("both", {{"data", data}, {"pipe", pipe}, {"model", model}}),
                              std::to_string(data) + " x " + std::to_string(pipe) + " x " + std::to_string(model));
}

/// What is under way at most is what the schedule says, and what lies in slots has one for each.
TEST(Pipeline, memory_follows_the_schedule) {
  const auto slots = [](const char* layout) { return slots_of(*pipeline_of(compiled(deep(layout)).program).order); };
  EXPECT_EQ(slots("fill"), 4);
  EXPECT_EQ(slots("turns"), 2);
  EXPECT_EQ(slots("eager"), 3);
  const Program program = compiled(deep("turns")).program;
  const auto stash = std::ranges::find_if(program.buffers, [&](const Buffer& buffer) {
    return buffer.dims.size() > 1 && program.sharded.graph.dim(buffer.dims[0].dim).name == "in_flight" &&
           program.sharded.graph.dim(buffer.dims[1].dim).name == "layer";
  });
  ASSERT_NE(stash, program.buffers.end());
  EXPECT_EQ(program.sharded.graph.dim(stash->dims[0].dim).size, 2);
  EXPECT_EQ(stash->dims[1].placement.axes.size(), 1u);
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

/// Gradients are added up micro-batch by micro-batch under every schedule.
TEST(Pipeline, schedules_agree_to_the_bit) {
  const auto run = [](const char* schedule) {
    CompileRequest request = deep(schedule);
    return tests::run(compiled(request).program);
  };
  const InterpretResult fill = run("fill"), turns = run("turns");
  for (const auto& [name, array] : fill.after) EXPECT_EQ(array.data, turns.after.at(name).data) << name;
  EXPECT_EQ(fill.metrics, turns.metrics);
}

}  // namespace
}  // namespace mesh
