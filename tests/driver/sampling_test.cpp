#include "meshrt/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace meshrt {
namespace {

using ::testing::Key;
using ::testing::UnorderedElementsAre;

/// How often each element is chosen, over many positions.
std::map<int32_t, int> drawn(const std::vector<double>& logits, const Sampling& how, int count = 4000) {
  std::map<int32_t, int> found;
  for (int64_t i = 0; i < count; ++i) ++found[choose_next(logits, how, {}, 0, i).token];
  return found;
}

std::vector<double> logits_of(std::vector<double> shares) {
  for (double& share : shares) share = std::log(share) + 3;
  return shares;
}

const std::vector<double> shares{0.1, 0.4, 0.2, 0.3};

TEST(Sampling, DrawsAsOftenAsTheSharesSay) {
  const int count = 40'000;
  const auto found = drawn(logits_of(shares), {}, count);
  for (size_t i = 0; i < shares.size(); ++i) {
    const double deviation = std::sqrt(shares[i] * (1 - shares[i]) / count);
    EXPECT_NEAR(found.at(static_cast<int32_t>(i)) / double(count), shares[i], 5 * deviation) << i;
  }
}

TEST(Sampling, TemperatureSharpensAndFlattens) {
  // Shares to the power of 1 / temperature, once more made to add up to 1.
  const int count = 40'000;
  for (const double temperature : {0.5, 2.0}) {
    double total = 0;
    for (const double share : shares) total += std::pow(share, 1 / temperature);
    const auto found = drawn(logits_of(shares), {.temperature = temperature}, count);
    for (size_t i = 0; i < shares.size(); ++i)
      EXPECT_NEAR(found.at(static_cast<int32_t>(i)) / double(count), std::pow(shares[i], 1 / temperature) / total,
                  0.0125);
  }
}

TEST(Sampling, LeavesOutWhatIsUnlikely) {
  const std::vector<double> logits = logits_of(shares);
  EXPECT_THAT(drawn(logits, {.top_k = 2}), UnorderedElementsAre(Key(1), Key(3)));
  EXPECT_THAT(drawn(logits, {.top_p = 0.69}), UnorderedElementsAre(Key(1), Key(3)));
  EXPECT_THAT(drawn(logits, {.top_p = 0.71}), UnorderedElementsAre(Key(1), Key(2), Key(3)));
  EXPECT_THAT(drawn(logits, {.top_p = 1e-9}), UnorderedElementsAre(Key(1)));
  EXPECT_THAT(drawn(logits, {.min_p = 0.6}), UnorderedElementsAre(Key(1), Key(3)));
  EXPECT_THAT(drawn(logits, {.top_k = 3, .min_p = 0.6}), UnorderedElementsAre(Key(1), Key(3)));
}

TEST(Sampling, TheLikeliestIsTheFirstOfEquals) {
  EXPECT_EQ(choose_next(std::vector<double>{1, 5, 5, 2}, {.temperature = 0}, {}, 0, 0).token, 1);
}

TEST(Sampling, WhatWasWrittenBecomesLessLikelyOnce) {
  const std::vector<double> logits{2, 3, -1, -2};
  const std::vector<int32_t> before{1, 1, 1};
  EXPECT_EQ(choose_next(logits, {.temperature = 0, .repetition = 1.6}, before, 0, 0).token, 0);
  EXPECT_EQ(choose_next(logits, {.temperature = 0, .repetition = 1.4}, before, 0, 0).token, 1);
  EXPECT_EQ(choose_next(std::vector<double>{-3, -2}, {.temperature = 0, .repetition = 2}, before, 0, 0).token, 0);
}

TEST(Sampling, SaysHowLikelyTheModelFindsIt) {
  const Chosen chosen = choose_next(logits_of(shares), {.temperature = 0, .top_k = 1}, {}, 0, 0);
  EXPECT_NEAR(chosen.logprob, std::log(0.4), 1e-12);
}

TEST(Sampling, DependsOnSeedSequenceAndPositionAlone) {
  const std::vector<double> logits(64, 0.0);
  const auto text = [&](uint64_t seed, int64_t sequence) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < 32; ++i) tokens.push_back(choose_next(logits, {.seed = seed}, {}, sequence, i).token);
    return tokens;
  };
  EXPECT_EQ(text(1, 0), text(1, 0));
  EXPECT_NE(text(1, 0), text(2, 0));
  EXPECT_NE(text(1, 0), text(1, 1));
}

}  // namespace
}  // namespace meshrt
