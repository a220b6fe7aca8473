// What papers and other implementations say of the named schedules in formulas: for passes of unequal lengths, for each
// rank, for what is sent, gathered and buffered.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/progress.h"
#include "codegen/schedule/simulate.h"
#include "tests/schedule/lists.h"

namespace mesh {
namespace {

using testing::Each, testing::ElementsAre;
using tests::named, tests::texts;

constexpr StageCosts equal{1, 1, 1, 0};

Simulation run(const PipelineSchedule& schedule, const StageCosts& of = equal) {
  ScheduleCosts costs;
  costs.ranks.assign(schedule.ranks.size(), of);
  return simulate(schedule, costs);
}

double largest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

/// Idle time of a rank between its first action and its last one.
double idle_inside(const Simulation& simulation, size_t rank) {
  const std::vector<Simulation::Timed>& actions = simulation.actions[rank];
  double busy = 0;
  for (const Simulation::Timed& one : actions) busy += one.end - one.begin;
  return actions.back().end - actions.front().begin - busy;
}

int count(const PipelineSchedule& schedule, const std::function<bool(const Action&)>& which) {
  int found = 0;
  for (const std::vector<Action>& actions : schedule.ranks)
    found += static_cast<int>(std::count_if(actions.begin(), actions.end(), which));
  return found;
}

// The bubble is (p - 1) / (m + p - 1) of the makespan, and (p - 1) / m of the time without it.
TEST(Papers, share_of_the_bubble) {
  for (const char* const name : {"gpipe", "1f1b"})
    for (const int32_t p : {1, 2, 4, 8})
      for (const int32_t m : {1, 4, 8, 32}) {
        const Simulation found = run(named(name, p, m));
        EXPECT_THAT(found.idle, Each(testing::DoubleNear((p - 1.0) / (m + p - 1) * found.makespan, 1e-9)));
        EXPECT_NEAR(found.idle[0] / (found.makespan - found.idle[0]), (p - 1.0) / m, 1e-9);
      }
}

// GPipe's own order of backward passes is the last micro-batch first: as long, and as many in flight.
TEST(Papers, gpipe_backward_in_either_order) {
  for (const int32_t p : {1, 2, 4, 8})
    for (const int32_t m : {1, 4, 8, 32}) {
      const PipelineSchedule first = named("gpipe", p, m);
      PipelineSchedule last = first;
      for (std::vector<Action>& actions : last.ranks) std::reverse(actions.begin() + m, actions.end());
      EXPECT_DOUBLE_EQ(run(last).makespan, run(first).makespan) << p << " " << m;
      EXPECT_THAT(run(last).peak_in_flight, Each(m));
      EXPECT_THAT(run(first).peak_in_flight, Each(m));
      EXPECT_THAT(most_in_flight(with_recompute(last, Remat::stage)), Each(InFlight{m, 1}));
      EXPECT_THAT(most_in_flight(with_recompute(first, Remat::stage)), Each(InFlight{m, 1}));
    }
}

// min(m, p - r) forward passes, then one backward pass before each further forward one.
TEST(Papers, one_forward_one_backward_in_the_words_of_pytorch) {
  for (const int32_t p : {1, 2, 3, 4, 8})
    for (const int32_t m : {1, 2, 4, 5, 16}) {
      PipelineSchedule said{p, m, {}};
      for (int32_t rank = 0; rank < p; ++rank) {
        std::vector<Action>& actions = said.ranks.emplace_back();
        int32_t forward = 0;
        while (forward < std::min(m, p - rank)) actions.push_back({ActionKind::forward, rank, forward++});
        for (int32_t one = 0; one < m; ++one) {
          actions.push_back({ActionKind::backward, rank, one});
          if (forward < m) actions.push_back({ActionKind::forward, rank, forward++});
        }
      }
      EXPECT_EQ(texts(named("1f1b", p, m)), texts(said));
    }
}

// Bubbles where a forward pass, I and W take unequal times.
TEST(Papers, bubbles_of_unequal_passes) {
  for (const StageCosts& of : {StageCosts{1, 1, 1}, StageCosts{1, 3, 1}, StageCosts{4, 5, 3}, StageCosts{2, 3, 2}})
    for (const int32_t p : {2, 3, 4, 8})
      for (const int32_t m : {2 * p, 4 * p}) {
        SCOPED_TRACE(
            fmt::format("F {} I {} W {}, p {}, m {}", of.forward, of.input_gradient, of.weight_gradient, p, m));
        const double f = of.forward, i = of.input_gradient, w = of.weight_gradient;
        for (const char* const name : {"gpipe", "1f1b", "eager_1f1b"})
          EXPECT_THAT(run(named(name, p, m), of).idle, Each(testing::DoubleNear((p - 1) * (f + i + w), 1e-9))) << name;
        for (const char* const name : {"interleaved", "looped_bfs"})
          for (const int32_t v : {2, 3})
            EXPECT_NEAR(largest(run(named(name, p, m, v), of).idle), (p - 1) * (f + i + w) / v, 1e-9) << name << v;
        EXPECT_NEAR(largest(run(named("zb_h1", p, m), of).idle), (p - 1) * (f + i - w), 1e-9);
        // Beside this, ranks of zb_h2 do not begin and end together.
        const Simulation h2 = run(named("zb_h2", p, m), of);
        for (int rank = 0; rank < p; ++rank)
          EXPECT_NEAR(idle_inside(h2, rank), (p - 1 - rank) * (f + i - 2 * w), 1e-9) << rank;
      }
}

// Of equal passes: a third of the bubble of 1f1b under zb_h1. Under zb_h2 and zb_v no rank waits between its first
// action and its last; what is left is that ranks do not begin and end together.
TEST(Papers, bubbles_of_zero_bubble_schedules) {
  for (const int32_t p : {2, 3, 4, 8})
    for (const int32_t m : {2 * p - 1, 2 * p, 4 * p}) {
      EXPECT_DOUBLE_EQ(3 * largest(run(named("zb_h1", p, m)).idle), largest(run(named("1f1b", p, m)).idle));
      const Simulation h2 = run(named("zb_h2", p, m)), v = run(named("zb_v", p, m));
      for (int rank = 0; rank < p; ++rank) {
        EXPECT_NEAR(idle_inside(h2, rank), 0, 1e-9) << p << " " << m << " " << rank;
        EXPECT_NEAR(idle_inside(v, rank), 0, 1e-9) << p << " " << m << " " << rank;
      }
      EXPECT_DOUBLE_EQ(v.makespan, 3 * m + (p - 1) / 2.0);
    }
}

TEST(Papers, micro_batches_in_flight_on_every_rank) {
  for (const int32_t p : {2, 3, 4, 8})
    for (const int32_t m : {2 * p, 4 * p}) {
      EXPECT_THAT(run(named("zb_h1", p, m)).peak_in_flight, Each(p));
      EXPECT_THAT(run(named("zb_h2", p, m)).peak_in_flight, Each(2 * p - 1));
      EXPECT_THAT(run(named("zb_v", p, m)).peak_in_flight, Each(2 * p));
      EXPECT_THAT(run(named("looped_bfs", p, m, 3)).peak_in_flight, Each(3 * m));
      for (int rank = 0; rank < p; ++rank) {
        EXPECT_EQ(run(named("eager_1f1b", p, m)).peak_in_flight[rank], std::min(m, 2 * (p - 1 - rank) + 1));
        for (const int32_t v : {2, 3})
          EXPECT_EQ(run(named("interleaved", p, m, v)).peak_in_flight[rank], 2 * (p - 1 - rank) + (v - 1) * p + 1);
      }
    }
}

// In a V the first and the last stage, which may share an embedding, lie on one rank.
TEST(Papers, ranks_of_stages) {
  EXPECT_THAT(named("zb_v", 4, 8).rank_of_stage(), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0));
  for (const char* const name : {"interleaved", "looped_bfs", "circular"})
    EXPECT_THAT(named(name, 3, 6, 3).rank_of_stage(), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
}

// Over each boundary of two ranks a micro-batch goes once forward and its gradient once back: v chunks send v times as
// much between neighbours, and from the last rank to the first; a V sends nothing where it turns.
TEST(Papers, messages) {
  const auto sent = [](const char* name, int32_t p, int32_t m, int32_t v) {
    return count(with_communication(named(name, p, m, v)).value(), [](const Action& one) {
      return one.kind == ActionKind::send_forward || one.kind == ActionKind::send_backward;
    });
  };
  for (const int32_t p : {2, 3, 4})
    for (const int32_t m : {4, 6}) {
      for (const char* const name : {"gpipe", "1f1b", "eager_1f1b", "zb_h1", "zb_h2"})
        EXPECT_EQ(sent(name, p, m, 0), 2 * m * (p - 1)) << name;
      for (const char* const name : {"interleaved", "looped_bfs"})
        for (const int32_t v : {2, 3}) EXPECT_EQ(sent(name, p, m, v), 2 * m * (v * (p - 1) + v - 1)) << name;
      EXPECT_EQ(sent("zb_v", p, m, 0), 2 * 2 * m * (p - 1));
    }
}

// Breadth first, parameters that lie in parts are gathered once for each direction, and of a rank's last stage once
// for both; depth first they are gathered for each round of micro-batches.
TEST(Papers, parameters_gathered) {
  const auto gathered = [](const char* name, int32_t stage) {
    return count(with_gathered_parameters(named(name, 2, 8, 4), 1),
                 [&](const Action& one) { return one.kind == ActionKind::unshard && one.stage == stage; });
  };
  for (int32_t stage = 0; stage < 6; ++stage) {
    EXPECT_EQ(gathered("looped_bfs", stage), 2) << stage;
    EXPECT_GE(gathered("interleaved", stage), 4) << stage;
  }
  for (int32_t stage = 6; stage < 8; ++stage) EXPECT_EQ(gathered("looped_bfs", stage), 1) << stage;
}

// DeepSpeed's numbers: steps of a pipeline where each pass takes one, with backward passes and without; and buffers of
// a stage, as many as are in flight, but two at least so that one is received while another is computed.
TEST(Papers, steps_and_buffers_of_deepspeed) {
  for (const int32_t p : {1, 2, 4, 8})
    for (const int32_t m : {1, 2, 4, 16}) {
      const Simulation all = run(named("1f1b", p, m), {1, 0.5, 0.5, 0});
      EXPECT_DOUBLE_EQ(all.makespan, 2 * (m + p - 1));
      PipelineSchedule forward = named("gpipe", p, m);
      for (std::vector<Action>& actions : forward.ranks) actions.resize(m);
      EXPECT_DOUBLE_EQ(run(forward).makespan, m + p - 1);
      EXPECT_TRUE(find_deadlock(with_communication(forward, 1).value()).empty());
      const std::vector<InFlight> most = most_in_flight(named("1f1b", p, m));
      for (int rank = 0; rank < p; ++rank)
        EXPECT_EQ(std::max(2, most[rank].inputs), std::max(2, std::min(p - rank, m))) << p << " " << m << " " << rank;
    }
}

}  // namespace
}  // namespace mesh
