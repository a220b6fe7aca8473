// The planner's paths between placements: kinds, bytes, order.
#include "codegen/layout/reshard.h"

#include <gtest/gtest.h>

#include "codegen/layout/least_bytes.h"
#include "tests/layout/perceptron.h"

namespace mesh::testing {
namespace {

class Reshard : public ::testing::Test {
 protected:
  Reshard() : mesh(Perceptron::layout({{"rows", 2}, {"columns", 4}}, {}).mesh), planner(model.graph, mesh, machine) {}
  Perceptron model{64, 512, 1024};
  MeshShape mesh;
  Machine machine;
  ReshardPlanner planner;
  ValueType type{Type::f32, {}, {DimId{0}, DimId{1}}};  // [batch 64, io 512]

  std::string path(const Placement& from, const Placement& to) {
    const auto& found = planner.plan(type, from, to);
    if (!found) return "none";
    std::string text;
    for (const ReshardStep& step : found->steps)
      text += (text.empty() ? "" : ", ") + std::string(name_of(step.kind)) + " " + std::to_string(step.bytes);
    return text;
  }
};

const Placement whole{{{}, {}}, {}, {}};

TEST_F(Reshard, Nothing) { EXPECT_EQ(path(whole, whole), ""); }
TEST_F(Reshard, SliceSendsNothing) { EXPECT_EQ(path(whole, {{{{1}}, {}}, {}, {}}), "slice 0"); }
TEST_F(Reshard, GatherOfTwoAxesIsOneCollective) {
  EXPECT_EQ(path({{{{0, 1}}, {}}, {}, {}}, whole), "all_gather 114688");
}
TEST_F(Reshard, MovingAnAxisIsAnAllToAll) {
  EXPECT_EQ(path({{{{1}}, {}}, {}, {}}, {{{}, {{1}}}, {}, {}}), "all_to_all 24576");
}
TEST_F(Reshard, PartialToSplitIsAReduceScatter) {
  EXPECT_EQ(path({{{{0}}, {}}, {{1, Reduce::sum}}, {}}, {{{{0}}, {{1}}}, {}, {}}), "reduce_scatter 49152");
}
TEST_F(Reshard, RanksThatHoldTheSameShareASum) {
  EXPECT_EQ(path({{{}, {}}, {{1, Reduce::sum}}, {}}, {{{}, {{1}}}, {}, {}}),
            "slice 0, reduce_scatter 49152, all_gather 16384");
}
TEST_F(Reshard, AnAxisOfOneRankCostsNothing) {
  mesh.axes[1] = {"columns", 1, 1, {}};
  EXPECT_EQ(path({{{{0}}, {}}, {}, {}}, {{{{0, 1}}, {}}, {}, {}}), "slice 0");
  EXPECT_EQ(path({{{{1, 0}}, {}}, {}, {}}, {{{{0}}, {{1}}}, {}, {}}), "permute 0, slice 0");
}
TEST_F(Reshard, PartialOverTwoAxesIsOneAllReduce) {
  EXPECT_EQ(path({{{}, {}}, {{0, Reduce::sum}, {1, Reduce::sum}}, {}}, whole), "all_reduce 229376");
}
TEST_F(Reshard, PartsGoToOtherRanksBeforeTheMajorAxisIsGathered) {
  EXPECT_EQ(path({{{{0, 1}}, {}}, {}, {}}, {{{{1}}, {}}, {}, {}}), "permute 16384, all_gather 16384");
}
TEST_F(Reshard, ElementsGoStraightToWhereTheyAreNeeded) {
  // Of 2 x 4 ranks one that holds [32, 128] needs [16, 256]: half a part of each of two ranks, perhaps of itself.
  EXPECT_EQ(path({{{{0}}, {{1}}}, {}, {}}, {{{{1}}, {{0}}}, {}, {}}), "redistribute 16384");
  // Of copies those give that have given least so far: each rank an eighth, and it holds a quarter of that.
  EXPECT_EQ(path({{{{0}}, {}}, {}, {}}, {{{}, {{0, 1}}}, {}, {}}), "redistribute 8192");
}
TEST_F(Reshard, DimsAreDealtAnew) {
  const Placement blocks{{{{0, 1}}, {}}, {}, {}}, zigzag{{{{0, 1}, meshrt::zigzag(8)}, {}}, {}, {}},
      rounds{{{{0, 1}, meshrt::rounds(8, 2)}, {}}, {}, {}};
  // Of 16 blocks of 4 rows a rank has two before and two after, of which some keep none, or one.
  EXPECT_EQ(path(blocks, zigzag), "redistribute 16384");
  EXPECT_EQ(path(zigzag, rounds), "redistribute 8192");
  EXPECT_EQ(path(zigzag, whole), "redistribute 16384, all_gather 114688");
  EXPECT_EQ(path(whole, zigzag), "redistribute 0");
  EXPECT_EQ(path(zigzag, {{{}, {{0, 1}}}, {}, {}}), "all_to_all 14336, redistribute 0");
  EXPECT_EQ(path({{{}, {}}, {{0, Reduce::sum}, {1, Reduce::sum}}, {}}, zigzag),
            "reduce_scatter 114688, redistribute 16384");
}
TEST_F(Reshard, FewerRanksHoldWholePartsOfADeal) {
  // What the major axis alone splits is a union of parts: the minor one is gathered as it is.
  const Placement both{{{{0, 1}, meshrt::zigzag(8)}, {}}, {}, {}}, major{{{{0}, meshrt::zigzag(8)}, {}}, {}, {}};
  EXPECT_EQ(path(both, major), "all_gather 49152");
  EXPECT_EQ(path(major, both), "slice 0");
}
TEST_F(Reshard, AStretchOfALongerDimLiesAsItsBlocksDo) {
  // The rows are 8..71 of 72, whose block k of 9 holds rows 9 k - 8 and the next ones: 1, then 9 on each rank.
  const Placement blocks{{{{0, 1}}, {}}, {}, {}}, stretch{{{{0, 1}, meshrt::stretch(72, 8)}, {}}, {}, {}};
  EXPECT_EQ(path(blocks, stretch), "redistribute 14336");
  EXPECT_EQ(path(whole, stretch), "slice 0");
  EXPECT_EQ(path(stretch, whole), "all_gather 129024");
  EXPECT_EQ(path({{{}, {}}, {{0, Reduce::sum}, {1, Reduce::sum}}, {}}, stretch), "reduce_scatter 129024");
}
TEST_F(Reshard, NothingMakesAPartial) { EXPECT_EQ(path(whole, {{{}, {}}, {{1, Reduce::sum}}, {}}), "none"); }

// What no way of moving can do without.
class LeastBytes : public Reshard {
 protected:
  int64_t least(const Placement& from, const Placement& to) const {
    return least_bytes(model.graph, mesh, type, from, to);
  }
};

constexpr int64_t value_bytes = int64_t{64} * 512 * 4;

TEST_F(LeastBytes, IsWhatIsNeededAndNotHeld) {
  EXPECT_EQ(least(whole, {{{{0, 1}}, {}}, {}, {}}), 0);
  EXPECT_EQ(least({{{{1}}, {}}, {}, {}}, whole), value_bytes * 3 / 4);
  EXPECT_EQ(least({{{{1}}, {}}, {}, {}}, {{{}, {{1}}}, {}, {}}), value_bytes * 3 / 16);
}
TEST_F(LeastBytes, IsAnEighthWhereTheOrderOfAxesTurns) {
  EXPECT_EQ(least({{{{0, 1}}, {}}, {}, {}}, {{{{1, 0}}, {}}, {}, {}}), value_bytes / 8);
}
TEST_F(LeastBytes, OfASumIsAllThatIsNeededOrGiven) {
  // Both rows have equal copies: each element is added once, by three messages, and its sum goes to seven more ranks.
  EXPECT_EQ(least({{{}, {}}, {{1, Reduce::sum}}, {}}, whole), value_bytes * 10 / 8);
  EXPECT_EQ(least({{{}, {}}, {{1, Reduce::sum}}, {}}, {{{{1}}, {}}, {}, {}}), value_bytes / 2);
  // A row completes only the half that it needs.
  EXPECT_EQ(least({{{}, {}}, {{1, Reduce::sum}}, {}}, {{{{0, 1}}, {}}, {}, {}}), value_bytes * 3 / 8);
}
TEST_F(LeastBytes, OfWhatOneStageHasIsAllThatOthersNeed) {
  const std::vector<Where> second{{0, {1}, {}}};
  EXPECT_EQ(least({{{}, {}}, {}, second}, whole), value_bytes);
  EXPECT_EQ(least({{{}, {}}, {}, second}, {{{{1}}, {}}, {}, second}), 0);
  EXPECT_EQ(least(whole, {{{}, {}}, {}, second}), 0);
  // Four ranks have a term each: three messages add up each element, and an eighth goes to each rank outside.
  EXPECT_EQ(least({{{}, {}}, {{1, Reduce::sum}}, second}, {{{{0, 1}}, {}}, {}, {}}), value_bytes * 25 / 32);
}
TEST_F(LeastBytes, IsSentWhereASumIsScattered) {
  const Placement from{{{{0}}, {}}, {{1, Reduce::sum}}, {}}, to{{{{0}}, {{1}}}, {}, {}};
  EXPECT_EQ(path(from, to), "reduce_scatter " + std::to_string(least(from, to)));
}

}  // namespace
}  // namespace mesh::testing
