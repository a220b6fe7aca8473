// What a call costs by its size, as a machine description says.
#include <gtest/gtest.h>

#include "codegen/layout/cost.h"
#include "tests/layout/perceptron.h"

namespace mesh {
namespace {

Machine read(const std::string& text) {
  SourceMap sources;
  DiagnosticSink sink;
  sources.add("machine", text);
  const std::optional<Machine> machine = read_machine("machine", sources, sink);
  EXPECT_TRUE(machine) << text;
  return machine.value_or(Machine{});
}

TEST(Machine, OneRateIsThatOfAllSizes) {
  const Rate rate = read("node: { gbs: 4 }").node.together.gbs;
  for (const double bytes : {0.0, 1.0, 1e6, 1e9}) EXPECT_DOUBLE_EQ(rate.seconds(bytes), bytes / 4e9);
}

TEST(Machine, BetweenSizesTimeGrowsEvenly) {
  const Rate rate = read("network: { gbs: { 1000B: 1, 3000B: 2 } }").network.together.gbs;
  EXPECT_DOUBLE_EQ(rate.seconds(500), 0.5e-6);
  EXPECT_DOUBLE_EQ(rate.seconds(1000), 1e-6);
  EXPECT_DOUBLE_EQ(rate.seconds(2000), 1.25e-6);
  EXPECT_DOUBLE_EQ(rate.seconds(3000), 1.5e-6);
  EXPECT_DOUBLE_EQ(rate.seconds(30'000), 15e-6);
  EXPECT_DOUBLE_EQ(rate.fastest(), 2);
}

TEST(Machine, SendsHaveALinkOfTheirOwn) {
  const Machine machine = read("node: { send: { gbs: 20 }, latency_us: 3, gbs: 10 }");
  const MeshShape mesh = testing::Perceptron::layout({{"rows", 4}}, {}).mesh;
  EXPECT_DOUBLE_EQ(collective_seconds(machine, mesh, {0}, CollectiveKind::all_gather, 1'000'000), 2 * 3e-6 + 1e-4);
  EXPECT_DOUBLE_EQ(collective_seconds(machine, mesh, {0}, CollectiveKind::permute, 1'000'000), 3e-6 + 0.5e-4);
  EXPECT_DOUBLE_EQ(machine.network.sends().gbs.seconds(3e9), 1);
}

TEST(Machine, RanksMeetOnceACallWhateverItsRounds) {
  const Machine machine = read("node: { meeting_us: 200, latency_us: 3, gbs: 10 }");
  const MeshShape mesh = testing::Perceptron::layout({{"rows", 4}}, {}).mesh;
  const auto call = [&](CollectiveKind kind) { return collective_seconds(machine, mesh, {0}, kind, 1'000'000); };
  EXPECT_DOUBLE_EQ(call(CollectiveKind::all_reduce), 200e-6 + 4 * 3e-6 + 1e-4);
  EXPECT_DOUBLE_EQ(call(CollectiveKind::all_gather), 200e-6 + 2 * 3e-6 + 1e-4);
  EXPECT_DOUBLE_EQ(transfer_seconds(machine, mesh, {0}, CollectiveKind::permute, 1'000'000), 3e-6 + 1e-4);
  EXPECT_DOUBLE_EQ(machine.network.meetings.seconds(1), 0);
}

TEST(Machine, RanksWaitLongerForOneAnotherAfterLongerWork) {
  const Meetings one = read("node: { meeting_us: 200 }").node.meetings;
  EXPECT_DOUBLE_EQ(one.seconds(0), 0);
  EXPECT_DOUBLE_EQ(one.seconds(0.25e-3), 50e-6);
  EXPECT_DOUBLE_EQ(one.seconds(1e-3), 200e-6);
  EXPECT_DOUBLE_EQ(one.seconds(1), 200e-6);
  const Meetings several = read("node: { meeting_us: { 100us: 20, 1ms: 110, 0.01s: 200 } }").node.meetings;
  EXPECT_DOUBLE_EQ(several.seconds(50e-6), 10e-6);
  EXPECT_DOUBLE_EQ(several.seconds(550e-6), 65e-6);
  EXPECT_DOUBLE_EQ(several.seconds(5.5e-3), 155e-6);
  EXPECT_DOUBLE_EQ(several.seconds(20e-3), 200e-6);
}

}  // namespace
}  // namespace mesh
