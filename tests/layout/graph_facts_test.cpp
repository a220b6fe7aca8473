// What layouts share of a graph: it decides nothing, so each is placed as it would be alone.
#include <gtest/gtest.h>

#include "perceptron.h"

namespace mesh {
namespace {

using testing::Perceptron;

std::vector<Layout> layouts(const Perceptron& model) {
  const std::vector<std::vector<AxisId>> targets{{}, {0}, {1}, {0, 1}, {1, 0}};
  std::vector<Layout> all;
  for (const auto& batch : targets)
    for (const auto& hidden : targets)
      for (const auto& io : targets) {
        const bool clash = std::ranges::any_of(std::vector<AxisId>{0, 1}, [&](AxisId axis) {
          return contains(batch, axis) + contains(hidden, axis) + contains(io, axis) > 1;
        });
        if (clash) continue;
        all.push_back(Perceptron::layout({{"data", 2}, {"model", 3}},
                                         {{model.batch, batch}, {model.hidden, hidden}, {model.io, io}}));
      }
  return all;
}

void expect_same(const ShardedGraph& one, const ShardedGraph& other) {
  ASSERT_EQ(one.graph.nodes.size(), other.graph.nodes.size());
  EXPECT_EQ(one.placements, other.placements);
}

TEST(GraphFacts, change_no_placement) {
  const Perceptron model(12, 18, 30);
  const Graph step = completed(differentiated(model.graph));
  const std::vector<Layout> all = layouts(model);
  ASSERT_GT(all.size(), 15u);
  const Machine machine;
  const auto of_mesh = [&] {
    const auto planner = std::make_shared<ReshardPlanner>(step, all.front().mesh, machine);
    return std::make_shared<GraphFacts>(step, machine, planner);
  };
  const std::shared_ptr<GraphFacts> shared = of_mesh();
  for (int again = 0; again < 2; ++again)  // the second time all is known
    for (const Layout& layout : all) {
      SCOPED_TRACE(again);
      expect_same(place_once(shared, layout), place_once(of_mesh(), layout));
      expect_same(place(shared, layout), place(step, layout, machine));
    }
}

}  // namespace
}  // namespace mesh
