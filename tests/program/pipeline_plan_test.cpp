// What a plan says of a pipeline: its stages' time, waiting and memory, and what goes between them.
#include <gtest/gtest.h>

#include <numeric>

#include "codegen/layout/predict.h"
#include "codegen/program/exposed.h"
#include "codegen/program/walk.h"
#include "codegen/schedule/named_schedules.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

Compiled planned(const std::string& layout) {
  CompileRequest request;
  request.files = {CUT};
  request.layout = layout;
  return tests::compiled(request);
}

TEST(PipelinePlan, a_step_is_the_pipeline_and_what_is_beside_it) {
  for (const char* layout : {"even", "turns", "fill", "both"}) {
    const Compiled result = planned(layout);
    const Prediction prediction = predict(result.program);
    const PlannedPipeline pipeline = planned_pipeline(result.sharded()).value();
    const double beside = pipeline.costs.outside_compute + exposed_seconds(result.program, prediction);
    EXPECT_NEAR(step_time(result.program, prediction).total(), beside + pipeline.run.makespan, 1e-12) << layout;
    EXPECT_GT(pipeline.bubble_seconds(), 0) << layout;
  }
}

/// Each stage's own turns, the ends' besides, every micro-batch through all passes.
TEST(PipelinePlan, ranks_are_busy_with_their_turns) {
  const Compiled result = planned("turns");
  const PipelineCosts costs = pipeline_costs(result.sharded()).value();
  const PlannedPipeline pipeline = planned_pipeline(result.sharded()).value();
  ASSERT_EQ(pipeline.ranks.size(), 3u);
  const std::vector<int32_t> turns{1, 4, 2};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pipeline.ranks[i].turns, turns[i]);
    EXPECT_NEAR(pipeline.run.makespan - pipeline.ranks[i].idle_seconds, 4 * pipeline.ranks[i].seconds(), 1e-12) << i;
    EXPECT_EQ(pipeline.ranks[i].in_flight, static_cast<int32_t>(3 - i));
  }
  PlannedRank middle;
  middle.work.add(costs.turns[0], 4);
  middle.work.add(costs.each);
  EXPECT_NEAR(pipeline.ranks[1].seconds(), middle.seconds(), 1e-15);
  EXPECT_EQ(pipeline.ranks[1].kept, 2 * middle.work.kept);
}

/// So that a gradient at an end is added up where it is made, without memory between.
TEST(PipelinePlan, what_a_stage_does_alone_stands_together) {
  for (const char* layout : {"even", "turns", "fill", "both"}) {
    const Compiled result = planned(layout);
    int branches = 0;
    for (const Routine& routine : result.program.routines)
      for_each_step(routine.steps, [&](const Step& step) {
        const auto* action = std::get_if<ActionStep>(&step.what);
        if (!action) return;
        const BranchStep* before = nullptr;
        for (const Step& inner : action->body) {
          const auto* branch = std::get_if<BranchStep>(&inner.what);
          branches += branch ? 1 : 0;
          EXPECT_FALSE(before && branch && before->at == branch->at && before->stage == branch->stage) << layout;
          before = branch;
        }
      });
    EXPECT_GT(branches, 0) << layout;
  }
}

TEST(PipelinePlan, counts_messages_among_what_is_sent) {
  const Compiled result = planned("turns");
  const Prediction prediction = predict(result.sharded());
  ASSERT_EQ(prediction.messages.size(), 2u);
  for (const PlannedMessage& one : prediction.messages) {
    EXPECT_EQ(one.volume(), 4 * 2 * 3 * 4 * 4);  // micro-batches of 2 samples, 3 positions, 4 of f32
    EXPECT_EQ(one.what.axis, 0);
  }
  for (const PlannedCollective& one : prediction.collectives) EXPECT_NE(one.tensor, "repeat") << one.reason;
}

/// With two chunks a rank has the turns of both, and what every rank does once.
TEST(PipelinePlan, knows_other_schedules) {
  const Compiled result = planned("turns");
  const PipelineCosts costs = pipeline_costs(result.sharded()).value();
  const PipelineSchedule schedule = find_schedule("interleaved")->make({3, 4, 2});
  const PlannedPipeline pipeline = planned_pipeline(costs, schedule, {1, 1, 2, 1, 1, 1});
  ASSERT_EQ(pipeline.ranks.size(), 3u);
  EXPECT_EQ(pipeline.ranks[0].turns, 2);
  EXPECT_EQ(pipeline.ranks[2].turns, 3);
  double all = 0;
  for (const auto& [work, times] :
       {std::pair{&costs.turns[0], 7}, {&costs.gaps[0], 1}, {&costs.gaps[1], 1}, {&costs.each, 3}})
    all += times * (work->seconds.forward + work->seconds.input_gradient + work->seconds.weight_gradient);
  const double found = std::accumulate(pipeline.ranks.begin(), pipeline.ranks.end(), 0.0,
                                       [](double sum, const PlannedRank& rank) { return sum + rank.seconds(); });
  EXPECT_NEAR(found, all, 1e-12);
  EXPECT_EQ(pipeline.ranks[1].work.held, 2 * costs.turns[0].held + costs.each.held);
}

}  // namespace
}  // namespace mesh
