// Times, idle ranks and micro-batches in flight against the formulas of the papers, and against tables of others.
#include "codegen/schedule/simulate.h"

#include <gmock/gmock.h>

#include "codegen/schedule/lower_schedule.h"
#include "tests/schedule/lists.h"

namespace mesh {
namespace {

using testing::ElementsAre;
using tests::named;

ScheduleCosts equal_costs(size_t ranks, const StageCosts& one = {}) {
  ScheduleCosts costs;
  costs.ranks.assign(ranks, one);
  return costs;
}

Simulation run(const std::string& name, int32_t p, int32_t m, int32_t v = 0) {
  return simulate(named(name, p, m, v), equal_costs(p));
}

struct Row {
  const char* name;
  struct {
    double makespan, idle;
    int peak;
  } p2_m4, p4_m4, p4_m8;
};

TEST(Simulate, known_makespans_idle_times_and_peaks) {
  const std::vector<Row> rows = {{"gpipe", {15, 3, 4}, {21, 9, 4}, {33, 9, 8}},
                                 {"1f1b", {15, 3, 2}, {21, 9, 4}, {33, 9, 4}},
                                 {"interleaved", {13.5, 1.5, 5}, {16.5, 4.5, 8}, {28.5, 4.5, 11}},
                                 {"looped_bfs", {13.5, 1.5, 8}, {16.5, 4.5, 8}, {28.5, 4.5, 16}},
                                 {"zb_h1", {13, 1, 2}, {15, 3, 4}, {27, 3, 4}},
                                 {"zb_h2", {13, 1, 3}, {16, 4, 4}, {27, 3, 7}},
                                 {"zb_v", {12.5, 0.5, 4}, {15, 3, 5}, {25.5, 1.5, 8}}};
  for (const Row& row : rows) {
    const auto expect = [&](const auto& numbers, int32_t p, int32_t m) {
      const Simulation found = run(row.name, p, m);
      EXPECT_DOUBLE_EQ(found.makespan, numbers.makespan) << row.name << " " << p << " " << m;
      EXPECT_DOUBLE_EQ(found.idle[0], numbers.idle) << row.name << " " << p << " " << m;
      EXPECT_EQ(found.peak_in_flight[0], numbers.peak) << row.name << " " << p << " " << m;
    };
    expect(row.p2_m4, 2, 4);
    expect(row.p4_m4, 4, 4);
    expect(row.p4_m8, 4, 8);
  }
}

TEST(Simulate, peaks_of_every_rank) {
  EXPECT_THAT(run("1f1b", 4, 8).peak_in_flight, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(run("interleaved", 4, 8).peak_in_flight, ElementsAre(11, 9, 7, 5));
  EXPECT_THAT(run("eager_1f1b", 4, 16).peak_in_flight, ElementsAre(7, 5, 3, 1));
}

// m + p - 1 times a forward and a backward pass; a bubble shorter by the number of chunks; what W fills of it.
TEST(Simulate, formulas_of_the_papers) {
  for (const int32_t p : {1, 2, 3, 4, 8})
    for (const int32_t m : {1, 2, 4, 8, 16, 32}) {
      EXPECT_DOUBLE_EQ(run("gpipe", p, m).makespan, 3.0 * (m + p - 1)) << p << " " << m;
      EXPECT_DOUBLE_EQ(run("1f1b", p, m).makespan, 3.0 * (m + p - 1)) << p << " " << m;
      for (int rank = 0; rank < p; ++rank) EXPECT_EQ(run("1f1b", p, m).peak_in_flight[rank], std::min(p - rank, m));
      if (m % p == 0)
        for (const int32_t v : {2, 3, 4}) {
          EXPECT_NEAR(run("interleaved", p, m, v).idle[0], 3.0 * (p - 1) / v, 1e-9) << p << " " << m << " " << v;
          EXPECT_NEAR(run("looped_bfs", p, m, v).idle[0], 3.0 * (p - 1) / v, 1e-9) << p << " " << m << " " << v;
          EXPECT_EQ(run("interleaved", p, m, v).peak_in_flight[0], std::min(2 * (p - 1) + (v - 1) * p + 1, m * v));
        }
      if (m >= 2 * p - 1) {
        EXPECT_DOUBLE_EQ(run("zb_h1", p, m).idle[0], p - 1.0) << p << " " << m;
        EXPECT_EQ(run("zb_h1", p, m).peak_in_flight[0], p);
        EXPECT_EQ(run("zb_h2", p, m).peak_in_flight[0], 2 * p - 1);
        EXPECT_DOUBLE_EQ(run("zb_v", p, m).idle[0], (p - 1) / 2.0) << p << " " << m;
        EXPECT_EQ(run("zb_v", p, m).peak_in_flight[0], 2 * p);
      }
    }
}

// Forward passes of a pipeline that fills: at time k, stage j has micro-batch k - j.
TEST(Simulate, forward_passes_by_the_clock) {
  for (const auto& [m, p] : std::vector<std::pair<int, int>>{{1, 1}, {1, 3}, {3, 1}, {3, 3}, {4, 2}})
    for (const auto& actions : run("gpipe", p, m).actions)
      for (const Simulation::Timed& one : actions)
        if (one.action.kind == ActionKind::forward) {
          EXPECT_DOUBLE_EQ(one.begin, one.action.stage + one.action.micro_batch);
        }
}

TEST(Simulate, latency_of_messages) {
  struct Line {
    double latency;
    std::array<double, 3> strict, eager, gpipe;  // 8, 16, 32 micro-batches
  };
  for (const Line& line : std::vector<Line>{{0, {33, 57, 105}, {33, 57, 105}, {33, 57, 105}},
                                            {0.25, {37, 64, 118}, {34.5, 58.5, 106.5}, {34.5, 58.5, 106.5}},
                                            {0.5, {41, 71, 131}, {36, 60, 108}, {36, 60, 108}},
                                            {1, {49, 85, 157}, {39, 63, 111}, {39, 63, 111}},
                                            {2, {65, 113, 209}, {48, 75, 130}, {45, 69, 117}}})
    for (size_t i = 0; i < 3; ++i) {
      ScheduleCosts costs = equal_costs(4);
      costs.latency = line.latency;
      const int32_t m = 8 << i;
      EXPECT_DOUBLE_EQ(simulate(named("1f1b", 4, m), costs).makespan, line.strict[i]) << line.latency << " " << m;
      EXPECT_DOUBLE_EQ(simulate(named("eager_1f1b", 4, m), costs).makespan, line.eager[i]) << line.latency << " " << m;
      EXPECT_DOUBLE_EQ(simulate(named("gpipe", 4, m), costs).makespan, line.gpipe[i]) << line.latency << " " << m;
    }
}

TEST(Simulate, unequal_stages) {
  const auto with = [](const std::string& name, size_t slow) {
    ScheduleCosts costs = equal_costs(4);
    costs.ranks[slow] = {2, 2, 2, 0};
    return simulate(named(name, 4, 8), costs).makespan;
  };
  EXPECT_DOUBLE_EQ(with("gpipe", 3), 57);
  EXPECT_DOUBLE_EQ(with("1f1b", 3), 57);
  EXPECT_DOUBLE_EQ(with("gpipe", 0), 57);
  EXPECT_DOUBLE_EQ(with("1f1b", 0), 51);
  EXPECT_DOUBLE_EQ(with("gpipe", 1), 57);
  EXPECT_DOUBLE_EQ(with("1f1b", 1), 53);
}

TEST(Simulate, recomputation) {
  const auto with = [](int32_t p, int32_t m, Remat remat, bool late) {
    ScheduleCosts costs = equal_costs(p, {1, 1, 1, 1});
    costs.late_recompute = late;
    return simulate(with_recompute(named("gpipe", p, m), remat), costs).makespan;
  };
  for (const auto& [p, m, none, late, early, but_last_late, but_last] : std::vector<std::array<int32_t, 7>>{
           {4, 8, 33, 44, 41, 43, 40}, {2, 4, 15, 20, 19, 19, 18}, {8, 32, 117, 156, 149, 155, 148}}) {
    EXPECT_DOUBLE_EQ(with(p, m, Remat::none, false), none);
    EXPECT_DOUBLE_EQ(with(p, m, Remat::stage, true), late);
    EXPECT_DOUBLE_EQ(with(p, m, Remat::stage, false), early);
    EXPECT_DOUBLE_EQ(with(p, m, Remat::except_last, true), but_last_late);
    EXPECT_DOUBLE_EQ(with(p, m, Remat::except_last, false), but_last);
  }
}

TEST(Simulate, fewer_micro_batches_than_ranks) {
  EXPECT_DOUBLE_EQ(run("1f1b", 4, 1).makespan, 12);
  EXPECT_DOUBLE_EQ(run("1f1b", 4, 2).makespan, 15);
  EXPECT_DOUBLE_EQ(run("1f1b", 8, 4).makespan, 33);
}

// Last passes first on one rank, first passes first on the other: messages without bound keep it going.
TEST(Simulate, two_orders) {
  const PipelineSchedule mixed = tests::schedule({"0F0 0F1 0F2 0B2 0B1 0B0", "1F0 1F1 1F2 1B0 1B1 1B2"});
  EXPECT_DOUBLE_EQ(simulate(mixed, equal_costs(2)).makespan, 16);
}

}  // namespace
}  // namespace mesh
