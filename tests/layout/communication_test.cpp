// What a training step of the perceptron sends under each of its layouts, against the formulas by hand.
#include <gtest/gtest.h>

#include "tests/layout/perceptron.h"

namespace mesh::testing {
namespace {

double ring(double k, double n) { return 2 * (k - 1) / k * n * 4; }

/// Bytes of all collectives but those below 64 bytes.
double sent(const ShardedGraph& sharded) {
  double total = 0;
  for (const Node& node : sharded.graph.nodes)
    if (const ReshardOp* op = std::get_if<ReshardOp>(&node.op))
      if (sharded.steps[op->step].bytes >= 64) total += static_cast<double>(sharded.steps[op->step].bytes);
  return total;
}

struct Case {
  int64_t r, c;
};
class Communication : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr double b = 64, io = 512, hidden = 1024;
  Perceptron model{64, 512, 1024};
  ShardedGraph placed(const Layout& layout) { return place(completed(differentiated(model.graph)), layout, Machine{}); }
};

TEST_P(Communication, BatchOverOneAxis) {
  const auto [r, c] = GetParam();
  const int64_t n = r * c;
  EXPECT_NEAR(sent(placed(Perceptron::layout({{"all", n}}, {{model.batch, {0}}}))) / ring(n, 2 * io * hidden + hidden),
              1, 0.01);
}

TEST_P(Communication, HiddenOverOneAxis) {
  const auto [r, c] = GetParam();
  const int64_t n = r * c;
  EXPECT_NEAR(sent(placed(Perceptron::layout({{"all", n}}, {{model.hidden, {0}}}))) / ring(n, b * io), 1, 0.01);
}

TEST_P(Communication, BatchAndHidden) {
  const auto [r, c] = GetParam();
  const double expected = ring(c, b / r * io) + ring(r, (2 * io * hidden + hidden) / c);
  EXPECT_NEAR(
      sent(placed(Perceptron::layout({{"rows", r}, {"columns", c}}, {{model.batch, {0}}, {model.hidden, {1}}}))) /
          expected,
      1, 0.01);
}

TEST_P(Communication, IoAndHidden) {
  const auto [r, c] = GetParam();
  const double expected = 2 * ring(r, b * hidden / c) + ring(c, b * io / r);
  EXPECT_NEAR(sent(placed(Perceptron::layout({{"rows", r}, {"columns", c}}, {{model.io, {0}}, {model.hidden, {1}}}))) /
                  expected,
              1, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Communication, ::testing::Values(Case{2, 1}, Case{2, 2}, Case{2, 4}));

TEST(Communication, OneRankSendsNothing) {
  Perceptron model(64, 512, 1024);
  EXPECT_EQ(sent(place(completed(differentiated(model.graph)), Layout{}, Machine{})), 0);
}

}  // namespace
}  // namespace mesh::testing
