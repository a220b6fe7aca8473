// Routing and the sums of weighted rows, by hand and by definition.
#include "meshrt/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "meshrt/combine.h"
#include "meshrt/lookup.h"

namespace meshrt {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

struct Result {
  std::vector<int32_t> seat, source;
};

Result routed(const Routing& routing, const std::vector<int32_t>& chosen, const std::vector<float>& weight = {}) {
  Result result{std::vector<int32_t>(chosen.size()),
                std::vector<int32_t>(static_cast<size_t>(routing.outer * routing.experts * routing.slots))};
  route<float>(routing, chosen.data(), weight.empty() ? nullptr : weight.data(), result.seat.data(),
               result.source.data());
  return result;
}

TEST(Route, FirstChoicesComeBeforeSecondOnes) {
  // Three tokens, two choices each, two experts with two slots.
  const Result result = routed({1, 3, 2, 2, 2}, {1, 0, 0, 1, 0, 1});
  EXPECT_THAT(result.seat, ElementsAre(2, -1, 0, 3, 1, -1));
  EXPECT_THAT(result.source, ElementsAre(1, 2, 0, 1));
}

TEST(Route, GroupsHaveSlotsOfTheirOwn) {
  const Result result = routed({2, 2, 1, 2, 1}, {1, 1, 0, 1});
  EXPECT_THAT(result.seat, ElementsAre(1, -1, 0, 1));
  EXPECT_THAT(result.source, ElementsAre(-1, 0, 0, 1));
}

TEST(Route, TakesTheLargestWeightsFirst) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const Result result = routed({1, 4, 1, 2, 2}, {0, 0, 0, 0}, {nan, 0.25F, 0.5F, 0.25F});
  EXPECT_THAT(result.seat, ElementsAre(-1, 1, 0, -1));
  EXPECT_THAT(result.source, ElementsAre(2, 1, -1, -1));
}

TEST(Route, GoesOnceToTheFirstWithRoom) {
  const Result result = routed({1, 3, 2, 3, 1, true}, {0, 1, 0, 2, 0, 2});
  EXPECT_THAT(result.seat, ElementsAre(0, -1, -1, 2, -1, -1));
  EXPECT_THAT(result.source, ElementsAre(0, -1, 1));
}

TEST(Route, LeavesOutWhatChoosesNothing) {
  const Result result = routed({1, 3, 1, 1, 3}, {-1, 0, -1});
  EXPECT_THAT(result.seat, ElementsAre(-1, 0, -1));
  EXPECT_THAT(result.source, ElementsAre(1, -1, -1));
}

TEST(Combine, PartsOfTheRowsAddUp) {
  constexpr int64_t rows = 5, width = 3;
  const std::vector<int32_t> ids{4, 0, -1, 2, 2, 1, 0, 3};  // [2 groups, 2 tokens, 2 choices]
  std::vector<double> table, weight, d, expected(2 * 2 * width), d_table(2 * rows * width), d_weight(8);
  for (int i = 0; i < 2 * rows * width; ++i) table.push_back(i * 0.5 - 3);
  for (int i = 0; i < 8; ++i) weight.push_back(1 + i);
  for (int i = 0; i < 2 * 2 * width; ++i) d.push_back(i % 5 - 2);
  for (int64_t choice = 0; choice < 8; ++choice) {
    const int64_t id = ids[static_cast<size_t>(choice)], token = choice / 2;
    for (int64_t i = 0; i < width && id >= 0; ++i) {
      const auto at = static_cast<size_t>((choice / 4 * rows + id) * width + i);
      const auto of_token = static_cast<size_t>(token * width + i);
      expected[of_token] += weight[static_cast<size_t>(choice)] * table[at];
      d_table[at] += weight[static_cast<size_t>(choice)] * d[of_token];
      d_weight[static_cast<size_t>(choice)] += d[of_token] * table[at];
    }
  }
  std::vector<double> sum(expected.size()), weights(8);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 2}, {2, 5}}) {
    const Combining of{2, 2, 2, width, begin, end};
    std::vector<double> part, made(expected.size()), of_weights(8);
    for (int64_t group = 0; group < 2; ++group)
      for (int64_t i = (group * rows + begin) * width; i < (group * rows + end) * width; ++i)
        part.push_back(table[static_cast<size_t>(i)]);
    combine<double>(of, part.data(), ids.data(), weight.data(), made.data());
    combine_d_weight<double>(of, part.data(), ids.data(), d.data(), of_weights.data());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += made[i];
    for (size_t i = 0; i < weights.size(); ++i) weights[i] += of_weights[i];
    std::vector<double> of_part(part.size(), 7);
    combine_d_table<double>(of, ids.data(), weight.data(), d.data(), of_part.data());
    size_t at = 0;
    for (int64_t group = 0; group < 2; ++group)
      for (int64_t i = (group * rows + begin) * width; i < (group * rows + end) * width; ++i)
        EXPECT_EQ(of_part[at++], d_table[static_cast<size_t>(i)]);
  }
  EXPECT_THAT(sum, ElementsAreArray(expected));
  EXPECT_THAT(weights, ElementsAreArray(d_weight));
}

TEST(Lookup, TheLargestOfEachRow) {
  const int32_t ids[] = {2, 0, -1, 2};
  const float rows[] = {1, 5, -1, -2, 9, 9, 3, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> table(3 * 2, least<float>());
  scatter_max(Lookup{.begin = 0, .end = 3, .width = 2}, table.data(), ids, 4, rows);
  EXPECT_THAT(table, ElementsAre(-1, -2, least<float>(), least<float>(), 3, 5));
}

}  // namespace
}  // namespace meshrt
