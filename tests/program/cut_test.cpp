// Which turns each stage of a pipeline has: the user's own cut, and the one by predicted time and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "codegen/layout/pipeline_costs.h"
#include "codegen/layout/predict.h"
#include "codegen/layout/work.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::compiled;
using Sizes = std::vector<int32_t>;

CompileRequest headed(const std::string& layout) {
  CompileRequest request;
  request.files = {CUT};
  request.precision = "f64";
  request.layout = layout;
  request.wanted = {"layer.h", "grad(wte)", "grad(head)", "grad(layer.w)", "grad(layer.v)", "grad_norm"};
  return request;
}

const Sizes& cut_of(const ShardedGraph& sharded) { return sharded.layout.pipeline.cut; }

Sizes cut(const CompileRequest& request) { return cut_of(compiled(request).sharded()); }

/// Every way to cut so many layers.
void for_each_cut(int32_t layers, int32_t stages, Sizes& begun, const std::function<void(const Sizes&)>& visit) {
  if (stages == 1) {
    begun.push_back(layers);
    visit(begun);
    begun.pop_back();
    return;
  }
  for (int32_t size = 1; size <= layers - stages + 1; ++size) {
    begun.push_back(size);
    for_each_cut(layers - size, stages - 1, begun, visit);
    begun.pop_back();
  }
}

double slowest(const PipelineCosts& costs, const Sizes& sizes) {
  double most = 0;
  int64_t begin = 0;
  for (const int32_t size : sizes) {
    const bool is_last = begin + size == std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const StageCosts seconds = costs.stage({begin, begin + size}, begin == 0, is_last).seconds;
    begin += size;
    most = std::max(most, seconds.forward + seconds.input_gradient + seconds.weight_gradient);
  }
  return most;
}

TEST(Cut, equals_one_rank) {
  for (const char* layout :
       {"even",    "auto",   "fill",  "turns", "eager", "file",  "stacked", "few", "both",  "inter",
        "breadth", "circle", "alone", "ends",  "own",   "parts", "one",     "two", "three", "split"})
    tests::expect_as_one_rank(headed(layout), layout);
}

TEST(Cut, gives_each_stage_what_it_says) {
  EXPECT_EQ(cut(headed("even")), (Sizes{2, 2, 3}));
  EXPECT_EQ(cut(headed("turns")), (Sizes{1, 4, 2}));
  EXPECT_EQ(cut(headed("both")), (Sizes{5, 1, 1}));
  EXPECT_EQ(cut(headed("alone")), (Sizes{3, 4, 0}));
  EXPECT_EQ(cut(headed("ends")), (Sizes{0, 7, 0}));
  EXPECT_EQ(cut(headed("own")), (Sizes{0, 1, 2, 2, 2, 0}));
  EXPECT_EQ(cut(headed("split")), (Sizes{0, 7, 0}));
}

/// One cut, whatever the schedule: gradients are added up micro-batch by micro-batch.
TEST(Cut, schedules_agree_to_the_bit) {
  const InterpretResult fill = tests::run(compiled(headed("fill")).program);
  for (const char* layout : {"turns", "eager", "file", "one", "two", "three"}) {
    const InterpretResult other = tests::run(compiled(headed(layout)).program);
    for (const auto& [name, array] : fill.after) EXPECT_EQ(array.data, other.after.at(name).data) << name;
    EXPECT_EQ(fill.wanted.size(), other.wanted.size());
    for (const auto& [name, array] : fill.wanted) EXPECT_EQ(array.data, other.wanted.at(name).data) << name;
    EXPECT_EQ(fill.metrics, other.metrics);
  }
}

double seconds(const Compiled& step) { return predict(step.sharded()).seconds(); }

/// The slowest stage is as fast as under the best of all cuts, and the head weighs.
TEST(Cut, by_time_is_the_best_of_all) {
  for (const char* vocab : {"2", "40", "400"}) {
    CompileRequest request = headed("auto"), even = headed("even");
    request.set = even.set = {{"vocab", vocab}, {"batch", "512"}};
    const Compiled result = compiled(request);
    EXPECT_LT(seconds(result), seconds(compiled(even)));
    const PipelineCosts costs = pipeline_costs(result.sharded()).value();
    double best = slowest(costs, cut_of(result.sharded()));
    Sizes begun;
    for_each_cut(7, 3, begun, [&](const Sizes& other) { EXPECT_LE(best, slowest(costs, other) * (1 + 1e-9)); });
  }
  CompileRequest heavy = headed("auto");
  heavy.set = {{"vocab", "400"}};
  EXPECT_EQ(cut(heavy).back(), 1);
}

/// Where a step is not predicted to be faster with it, the even cut stays: stages of a turn more have arrays of a turn
/// more on all ranks.
TEST(Cut, by_time_is_no_slower_than_the_even_one) {
  const Compiled result = compiled(headed("auto")), even = compiled(headed("even")), other = compiled(headed("late"));
  const Pipeline& pipeline = even.sharded().layout.pipeline;
  const PipelineCosts costs = pipeline_costs(even.sharded()).value();
  const Partitioned found = cut_evenly_in_time(model_of(costs, pipeline.lists, {}, pipeline));
  EXPECT_EQ(std::get<Partition>(found).sizes, cut_of(other.sharded()));
  EXPECT_LE(seconds(even), seconds(other));
  EXPECT_EQ(cut_of(result.sharded()), cut_of(even.sharded()));
}

/// Seconds of all ops of a body, in all turns.
double work_of(const ShardedGraph& sharded, BodyId body) {
  const Work work(sharded);
  double seconds = 0;
  for (const NodeId id : sharded.graph.body(body).nodes) {
    const Node& node = sharded.graph.node(id);
    const auto* loop = std::get_if<LoopOp>(&node.op);
    seconds += loop ? static_cast<double>(sharded.graph.dim(loop->dim).size) * work_of(sharded, loop->body)
                    : work.seconds(node);
  }
  return seconds;
}

/// What all stages do together is what a step does.
TEST(Cut, costs_are_those_of_the_step) {
  const Compiled result = compiled(headed("turns"));
  const PipelineCosts costs = pipeline_costs(result.sharded()).value();
  StageWork all = costs.each;
  for (int turn = 0; turn < 7; ++turn) all.add(costs.turns[0]);
  for (const StageWork& gap : costs.gaps) all.add(gap);
  const double once = all.seconds.forward + all.seconds.input_gradient + all.seconds.weight_gradient;
  EXPECT_NEAR(4 * (once - all.communication) + costs.outside_compute, work_of(result.sharded(), BodyId{0}), 1e-12);
  ASSERT_EQ(costs.crossings.size(), 2u);
  EXPECT_EQ(costs.crossings[0].bytes, 2 * 3 * 4 * 8);
  EXPECT_EQ(costs.crossings[0].name, "h");
  EXPECT_TRUE(costs.crossings[1].down);
  // w, v, two moments of each, and the sum of its gradients
  EXPECT_EQ(costs.turns[0].held, 4 * 2 * 4 * 6 * 8);
}

TEST(Cut, keeps_within_the_memory) {
  CompileRequest request = headed("auto");
  request.set = {{"batch", "4"}};  // the stage that has most is one with several turns
  const Compiled free = compiled(request);
  const PipelineModel model = model_of(pipeline_costs(free.sharded()).value(), free.sharded().layout.pipeline.lists, {},
                                       free.sharded().layout.pipeline);
  const Sizes fast = cut_of(free.sharded());
  const Partitioned found = cut_by_hand(model, fast);
  int64_t bytes = 0;
  for (const Partition::Share& stage : std::get<Partition>(found).stages) bytes = std::max(bytes, stage.bytes);
  PipelineModel tight = model;
  tight.memory = bytes - 1;
  const Sizes other = std::get<Partition>(cut_evenly_in_time(tight)).sizes;
  EXPECT_NE(other, fast);
  const PipelineCosts costs = pipeline_costs(free.sharded()).value();
  request.memory = bytes - 1 + costs.each.held + model.in_flight[0].kept * costs.each.kept;
  EXPECT_EQ(cut(request), other);
  request.memory = 100;
  EXPECT_THROW(compiled(request), std::runtime_error);
}

}  // namespace
}  // namespace mesh
