// What is added to lists of computations, against examples of PyTorch's own lowering.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/named_schedules.h"
#include "codegen/schedule/progress.h"
#include "codegen/schedule/simulate.h"
#include "tests/schedule/lists.h"

namespace mesh {
namespace {

using testing::ElementsAre;
using tests::schedule, tests::texts;

TEST(Lower, messages_between_two_ranks) {
  const PipelineSchedule lowered = with_communication(schedule({"0F0 0F1 . 0B0 . 0B1", ". 1F0 1B0 1F1 1B1 ."})).value();
  EXPECT_THAT(texts(lowered), ElementsAre("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
                                          "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1"));
  EXPECT_EQ(steps_of(lowered).size(), 11);
}

// PyTorch's example of a zero-bubble schedule of two ranks with two chunks, 8 micro-batches: interleaved, with a
// warm-up of p - 1 - r + (v - 1) p, and the W of rank r behind by r.
TEST(Lower, zero_bubble_of_two_ranks_with_two_chunks) {
  constexpr int p = 2, v = 2, m = 8, all = v * m;
  PipelineSchedule split{p * v, m, {}};
  for (int rank = 0; rank < p; ++rank) {
    const auto action = [&](ActionKind kind, int k) {
      const int chunk = k / p % v;
      return Action{kind, (kind == ActionKind::forward ? chunk : v - 1 - chunk) * p + rank, k / (p * v) * p + k % p};
    };
    std::vector<Action>& list = split.ranks.emplace_back();
    int forward = 0, weights = 0;
    while (forward < p - 1 - rank + (v - 1) * p) list.push_back(action(ActionKind::forward, forward++));
    for (int k = 0; k < all; ++k) {
      if (forward < all) list.push_back(action(ActionKind::forward, forward++));
      list.push_back(action(ActionKind::input_gradient, k));
      if (k >= rank) list.push_back(action(ActionKind::weight_gradient, weights++));
    }
    while (weights < all) list.push_back(action(ActionKind::weight_gradient, weights++));
  }
  EXPECT_EQ(steps_of(with_communication(with_whole_backwards(split)).value()).size(), 113);
}

TEST(Lower, no_message_between_stages_of_one_rank) {
  const PipelineSchedule lowered = with_communication(schedule({"0F0 0F1 . 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1",
                                                                ". 1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 2W1 1W0 1W1"}))
                                       .value();
  for (const std::vector<Action>& actions : lowered.ranks)
    for (const Action& action : actions) {
      EXPECT_NE(tests::text({action}), "1SEND_F0");
      EXPECT_NE(tests::text({action}), "2RECV_F0");
    }
  EXPECT_EQ(steps_of(lowered).size(), 24);
}

TEST(Lower, computations_that_wait_in_a_circle) { EXPECT_FALSE(with_communication(schedule({"0B0 0F0", "1F0 1B0"}))); }

/// No more messages wait than may, and what they come into is free.
TEST(Lower, receives_wait_for_room) {
  const PipelineSchedule forward = schedule({"0F0 0F1 0F2", "1F0 1F1 1F2"});
  EXPECT_THAT(texts(with_communication(forward, 1).value()),
              ElementsAre("0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2", "1RECV_F0 1F0 1RECV_F1 1F1 1RECV_F2 1F2"));
  // Stage 2 begins when stage 0 has ended: what stage 1 gives has to lie somewhere until then.
  const PipelineSchedule looped =
      schedule({"0F0 0F1 0F2 0F3 0F4 0F5 2F0 2F1 2F2 2F3 2F4 2F5", "1F0 1F1 1F2 1F3 1F4 1F5 3F0 3F1 3F2 3F3 3F4 3F5"});
  EXPECT_FALSE(with_communication(looped, 1));
  EXPECT_EQ(describe_deadlock(looped, waits_for_room(looped, 1)),
            "rank 0 at 0F5 waits for 1RECV_F3 of rank 1\nrank 1 at 1F3 waits for 2RECV_F1 of rank 0");
  EXPECT_EQ(least_waiting(looped), 2);
  EXPECT_EQ(with_messages(looped, 1).value().waiting, 2);
  EXPECT_EQ(with_messages(looped).value().waiting, 6);
  EXPECT_TRUE(waits_for_room(looped, 2).empty());
}

/// Every number from the least on is enough, and then nobody waits for ever for a slot to be free.
TEST(Lower, no_more_messages_wait_than_may) {
  int32_t freely = 0;
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 3, 4})
      for (const int32_t m : {1, 2, 5, 8, 12}) {
        const PipelineSchedule lists = tests::named(one.name, p, m);
        const std::string name = fmt::format("{} {} {}", one.name, p, m);
        const WithMessages free = with_messages(lists).value();
        freely = std::max(freely, free.waiting);
        EXPECT_TRUE(find_deadlock_in_slots(free.schedule, slots_of_messages(lists, free.waiting)).empty()) << name;
        EXPECT_EQ(texts(with_communication(lists, free.waiting).value()), texts(free.schedule)) << name;
        const int32_t least = least_waiting(lists);
        EXPECT_LE(least, free.waiting) << name;
        for (int32_t waiting = 1; waiting <= m; ++waiting) {
          const auto whole = with_communication(lists, waiting);
          ASSERT_EQ(whole.has_value(), waiting >= least) << name;
          if (!whole) continue;
          EXPECT_LE(most_waiting(*whole), waiting) << name;
          EXPECT_TRUE(find_deadlock_in_slots(*whole, slots_of_messages(lists, waiting)).empty()) << name << waiting;
        }
      }
  EXPECT_GT(freely, 3);
}

/// Lists that need room for messages let ranks wait for ever where they have less.
TEST(Lower, too_few_slots_are_found) {
  const PipelineSchedule looped = tests::named("looped_bfs", 2, 8);
  const int32_t least = least_waiting(looped);
  const PipelineSchedule lists = with_communication(looped, least).value();
  EXPECT_TRUE(find_deadlock_in_slots(lists, slots_of_messages(looped, least)).empty());
  const std::vector<Wait> waits = find_deadlock_in_slots(lists, 1);
  ASSERT_FALSE(waits.empty());
  EXPECT_EQ(describe_deadlock(lists, waits),
            "rank 0 at 0F4 waits for 1RECV_F3 of rank 1\nrank 1 at 1RECV_F3 waits for 2RECV_F2 of rank 0");
}

/// What is handed on has a slot from its receive to its last use; what gradients need of it, until then.
TEST(Lower, rings_of_messages) {
  using enum ActionKind;
  const auto ring = [](const char* name, bool up, const std::set<SlotUse>& uses) {
    return ring_of_message(with_messages(tests::named(name, 4, 8)).value().schedule, up, uses);
  };
  EXPECT_EQ(ring("gpipe", true, {{forward, {}}}), 1);
  EXPECT_EQ(ring("gpipe", false, {{backward, {}}}), 1);
  EXPECT_EQ(ring("gpipe", true, {{forward, {}}, {backward, 3}}), 8);
  EXPECT_EQ(ring("1f1b", true, {{forward, {}}, {backward, {}}}), 4);
  EXPECT_EQ(ring("1f1b", true, {{forward, {}}, {backward, 3}}), 2);
  EXPECT_EQ(ring("zb_h1", false, {{input_gradient, {}}}), 1);
  EXPECT_EQ(ring("zb_h1", false, {{input_gradient, {}}, {weight_gradient, {}}}), 4);
  EXPECT_EQ(ring("looped_bfs", true, {{forward, {}}}), 8);
  // One rank hands on to itself: what its first stage makes waits until the second begins.
  EXPECT_EQ(ring_of_message(tests::named("looped_bfs", 1, 8), true, {{forward, {}}}), 8);
}

TEST(Lower, gathered_parameters) {
  EXPECT_THAT(texts(with_gathered_parameters(schedule({"0F0 0F1 . 0B0 0B1"}))),
              ElementsAre("0UNSHARD 0F0 0F1 0B0 0B1 0RESHARD"));
  EXPECT_THAT(texts(with_gathered_parameters(schedule({"0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1"}))),
              ElementsAre("0UNSHARD 1UNSHARD 0F0 0F1 1F0 1F1 1B0 1B1 1RESHARD 0B0 0B1 0RESHARD"));
}

TEST(Lower, reduced_gradients) {
  EXPECT_THAT(texts(with_reduced_gradients(schedule({"0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1"}))),
              ElementsAre("0F0 0F1 1F0 1F1 1B0 1B1 1REDUCE_GRAD 0B0 0B1 0REDUCE_GRAD"));
}

TEST(Lower, whole_backward_passes) {
  EXPECT_THAT(texts(with_whole_backwards(schedule({"0F0 0F1 0F2 0I0 0I1 0W0 0I2 0W2 0W1"}))),
              ElementsAre("0F0 0F1 0F2 0I0 0I1 0W0 0B2 0W1"));
}

// The gradient that goes back is on its way while the weights' gradients are computed, so the last backward passes of a
// step do not wait for these: (p - 1) W less.
TEST(Lower, split_backward_passes) {
  EXPECT_THAT(texts(with_split_backwards(schedule({"0F0 0F1 0B0 0I1 0W1", "1F0 1B0 1F1 1B1"}))),
              ElementsAre("0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1W0 1F1 1I1 1W1"));
  EXPECT_THAT(texts(with_communication(with_split_backwards(schedule({"0F0 0B0", "1F0 1B0"}))).value()),
              ElementsAre("0F0 0SEND_F0 0RECV_B0 0I0 0W0", "1RECV_F0 1F0 1I0 1SEND_B0 1W0"));
  constexpr int m = 8;
  for (const char* name : {"gpipe", "1f1b", "eager_1f1b"})
    for (const int p : {1, 2, 4, 7}) {
      const PipelineSchedule whole = tests::named(name, p, m), split = with_split_backwards(whole);
      const ScheduleCosts costs{std::vector<StageCosts>(static_cast<size_t>(p))};
      EXPECT_EQ(texts(with_whole_backwards(split)), texts(whole));
      EXPECT_DOUBLE_EQ(simulate(split, costs).makespan, simulate(whole, costs).makespan - (p - 1)) << name << ", " << p;
    }
}

}  // namespace
}  // namespace mesh
