// Which schedules stop under which way of sending.
#include <gmock/gmock.h>

#include "codegen/schedule/check_schedule.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/progress.h"
#include "tests/schedule/lists.h"

namespace mesh {
namespace {

using tests::named;

constexpr Transport blocking{0, 0}, one_slot{1, 1}, late_receives{1, 0};

bool stops(const PipelineSchedule& schedule, const Transport& transport) {
  return !find_deadlock(schedule, transport).empty();
}

const std::vector<std::pair<int, int>> sizes = {{2, 2}, {2, 4}, {4, 8}};  // ranks, micro-batches

TEST(Deadlock, sends_that_wait_for_their_receive) {
  for (const auto& [p, m] : sizes) {
    EXPECT_FALSE(stops(named("gpipe", p, m), blocking));
    for (const char* const name : {"1f1b", "interleaved", "looped_bfs", "zb_h1", "zb_v"})
      EXPECT_TRUE(stops(named(name, p, m), blocking)) << name << " " << p << " " << m;
  }
  const PipelineSchedule one = named("1f1b", 2, 4);
  EXPECT_EQ(describe_deadlock(one, find_deadlock(one, blocking)),
            "rank 0 at 0F1 waits for 1RECV_F1 of rank 1\nrank 1 at 1B0 waits for 0RECV_B0 of rank 0");
}

TEST(Deadlock, one_message_of_an_edge_under_way) {
  for (const auto& [p, m] : sizes)
    for (const NamedSchedule& one : named_schedules())
      EXPECT_FALSE(stops(named(one.name, p, m), one_slot)) << one.name << " " << p << " " << m;
}

// Rank 0 makes all forward passes of its first chunk before it takes what comes back for its second one: until then the
// p edges of the circle hold one that is sent and the others received, and each other rank one that it cannot send.
TEST(Deadlock, micro_batches_that_come_round_need_slots) {
  for (const int32_t p : {2, 3, 4})
    for (const int32_t v : {2, 4})
      for (const int32_t m : {4, 8, 15, 16, 64}) {
        const int32_t needed = (m + p) / p - 2, slots = std::max(1, needed);
        const PipelineSchedule loops = named("looped_bfs", p, m, v);
        EXPECT_EQ(least_slots(loops), slots) << p << " " << m << " " << v;
        EXPECT_FALSE(stops(loops, {1, slots}));
        EXPECT_EQ(stops(loops, {1, slots - 1}), needed > 0) << p << " " << m << " " << v;
      }
  for (const char* const name : {"gpipe", "1f1b", "eager_1f1b", "interleaved", "zb_h1", "zb_h2", "zb_v"})
    EXPECT_EQ(least_slots(named(name, 4, 16)), 1) << name;
}

TEST(Deadlock, receives_that_begin_when_they_are_needed) {
  for (const auto& [p, m] : sizes)
    for (const char* const name : {"gpipe", "1f1b", "interleaved", "looped_bfs", "zb_h1", "zb_v"})
      EXPECT_EQ(stops(named(name, p, m), late_receives), std::string(name) == "looped_bfs" && m > 2)
          << name << " " << p << " " << m;
}

TEST(Deadlock, two_orders) {
  const PipelineSchedule mixed = tests::schedule({"0F0 0F1 0F2 0B2 0B1 0B0", "1F0 1F1 1F2 1B0 1B1 1B2"});
  EXPECT_FALSE(stops(mixed, {3, 3}));
  EXPECT_EQ(describe_deadlock(mixed, find_deadlock(mixed, one_slot)),
            "rank 0 at 0B2 waits for 1SEND_B2 of rank 1\nrank 1 at 1B1 waits for 0RECV_B1 of rank 0");
}

// A pair of sends that met on two nodes, though it had worked on one.
TEST(Deadlock, of_lists_with_communication) {
  const PipelineSchedule crossed = tests::schedule(
      {"0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2RECV_F1 2F1", "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1"});
  EXPECT_EQ(describe_deadlock(crossed, find_deadlock(crossed)),
            "rank 0 at 0SEND_F1 waits for 1RECV_F1 of rank 1\nrank 1 at 1SEND_F0 waits for 2RECV_F0 of rank 0");
  const PipelineSchedule straight = tests::schedule(
      {"0F0 0SEND_F0 0F1 2RECV_F0 0SEND_F1 2F0 2RECV_F1 2F1", "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1"});
  EXPECT_TRUE(find_deadlock(straight).empty());
}

TEST(Deadlock, never_where_receives_are_put_when_their_sends_are) {
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 3, 4})
      for (const int32_t m : {1, 2, 5, 8}) {
        const PipelineSchedule lowered = with_communication(named(one.name, p, m)).value();
        EXPECT_TRUE(check_schedule(lowered).empty()) << one.name << " " << p << " " << m;
        EXPECT_TRUE(find_deadlock(lowered).empty()) << one.name << " " << p << " " << m;
      }
}

}  // namespace
}  // namespace mesh
