// What is added to lists of computations, against examples of PyTorch's own lowering.
#include <gmock/gmock.h>

#include <map>

#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/named_schedules.h"
#include "codegen/schedule/progress.h"
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

/// A receive stands behind what needs the buffer that it comes into.
TEST(Lower, receives_wait_for_their_slots) {
  const PipelineSchedule forward = schedule({"0F0 0F1 0F2", "1F0 1F1 1F2"});
  EXPECT_THAT(texts(with_communication(forward, 1).value()),
              ElementsAre("0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2", "1RECV_F0 1F0 1RECV_F1 1F1 1RECV_F2 1F2"));
  // Stage 2 begins when stage 0 has ended: what stage 1 gives has to lie somewhere until then.
  const PipelineSchedule looped = schedule({"0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3", "1F0 1F1 1F2 1F3 3F0 3F1 3F2 3F3"});
  EXPECT_FALSE(with_communication(looped, 1));
  EXPECT_EQ(with_fewest_slots(looped, 1).value().slots, 2);
}

/// Training needs no more slots than micro-batches are under way.
TEST(Lower, as_many_slots_as_micro_batches_under_way) {
  for (const NamedSchedule& one : named_schedules())
    for (const int p : {1, 2, 3, 4})
      for (const int m : {1, 2, 5, 8}) {
        const PipelineSchedule schedule = tests::named(one.name, p, m);
        EXPECT_EQ(with_fewest_slots(schedule, ring_of(schedule)).value().slots, ring_of(schedule))
            << one.name << p << m;
      }
}

/// The most receives of a stage in one direction that are posted and not used yet.
int32_t most_waiting(const PipelineSchedule& lists) {
  int32_t most = 0;
  for (const std::vector<Action>& actions : lists.ranks) {
    std::map<std::pair<bool, int32_t>, int32_t> waiting;
    for (const Action& one : actions) {
      const bool backward = one.kind == ActionKind::receive_backward || gives_gradient(one.kind);
      if (is_communication(one.kind) && (backward || one.kind == ActionKind::receive_forward))
        most = std::max(most, ++waiting[{backward, one.stage}]);
      if (one.kind == ActionKind::forward || gives_gradient(one.kind)) --waiting[{backward, one.stage}];
    }
  }
  return most;
}

TEST(Lower, no_more_messages_wait_than_may) {
  int32_t freely = 0;
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {2, 3, 4})
      for (const int32_t m : {1, 5, 8, 12}) {
        const PipelineSchedule lists = named(one.name, p, m);
        freely = std::max(freely, most_waiting(with_fewest_slots(lists, m).value().schedule));
        for (const int32_t waiting : {1, 2, 3}) {
          const auto whole = with_fewest_slots(lists, ring_of(lists, waiting), waiting);
          ASSERT_TRUE(whole) << one.name << " " << p << " " << m;
          EXPECT_LE(most_waiting(whole->schedule), waiting) << one.name << " " << p << " " << m;
          EXPECT_GE(whole->slots, std::min(m, ring_of(lists))) << one.name << " " << p << " " << m;
        }
      }
  EXPECT_GT(freely, 3);
  EXPECT_EQ(ring_of(named("1f1b", 4, 8), 1), 4);
  EXPECT_EQ(ring_of(named("1f1b", 4, 8), 2), 5);
  EXPECT_EQ(ring_of(named("1f1b", 4, 8), 3), 6);
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

}  // namespace
}  // namespace mesh
