// The lists of the named schedules, and that all of them can be run, whatever the numbers.
#include <gmock/gmock.h>

#include <algorithm>

#include "codegen/schedule/check_schedule.h"
#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/named_schedules.h"
#include "codegen/schedule/progress.h"
#include "tests/schedule/lists.h"

namespace mesh {
namespace {

using testing::ElementsAre;
using tests::named, tests::texts;

TEST(Named, one_forward_one_backward) {
  EXPECT_THAT(texts(named("1f1b", 4, 8)),
              ElementsAre("0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7",
                          "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7",
                          "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7",
                          "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7"));
}

TEST(Named, gpipe) {
  EXPECT_THAT(texts(named("gpipe", 2, 3)), ElementsAre("0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2"));
}

TEST(Named, interleaved) {
  EXPECT_THAT(texts(named("interleaved", 2, 4)),
              ElementsAre("0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
                          "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"));
}

TEST(Named, looped_bfs) {
  EXPECT_THAT(texts(named("looped_bfs", 2, 2)),
              ElementsAre("0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1", "1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1"));
}

TEST(Named, zero_bubble_apart_from_weights) {
  EXPECT_THAT(texts(named("zb_h1", 2, 3)),
              ElementsAre("0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2", "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2"));
}

TEST(Named, zero_bubble_in_a_v) {
  EXPECT_THAT(texts(named("zb_v", 1, 2)), ElementsAre("0F0 1F0 1I0 1W0 0F1 0I0 0W0 1F1 1I1 1W1 0I1 0W1"));
}

struct Sizes {
  int32_t ranks, micro_batches, chunks;
};

void runs(const std::string& name, const Sizes& sizes) {
  const PipelineSchedule made = named(name, sizes.ranks, sizes.micro_batches, sizes.chunks);
  const std::string where = name + ", p " + std::to_string(sizes.ranks) + ", m " + std::to_string(sizes.micro_batches) +
                            ", v " + std::to_string(sizes.chunks);
  for (const ScheduleMistake& mistake : check_schedule(made)) ADD_FAILURE() << where << ": " << mistake.message;
  const std::vector<Wait> waits = find_deadlock(made, {1, sizes.micro_batches});
  EXPECT_TRUE(waits.empty()) << where << ":\n" << describe_deadlock(made, waits);
}

TEST(Named, all_run_whatever_the_numbers) {
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 3, 4, 5, 8})
      for (int32_t m = 1; m <= 19; ++m)
        for (int32_t v = one.other_chunks ? 1 : one.chunks; v <= (one.other_chunks ? 4 : one.chunks); ++v)
          runs(one.name, {p, m, v});
}

TEST(Named, interleaved_as_others_try_it) {
  // Chunks, micro-batches, ranks; the last three have micro-batches that the ranks do not divide.
  for (const auto& [v, m, p] : std::vector<std::array<int32_t, 3>>{
           {2, 2, 2},  {2, 4, 4},  {2, 8, 2},  {2, 8, 4},   {2, 8, 8},   {4, 4, 4},    {4, 8, 4}, {4, 8, 8},
           {4, 16, 4}, {4, 32, 4}, {4, 64, 4}, {4, 16, 16}, {4, 32, 32}, {4, 128, 64}, {3, 2, 2}, {3, 8, 2},
           {3, 12, 4}, {4, 6, 3},  {4, 10, 5}, {2, 3, 4},   {2, 10, 4},  {2, 15, 4}})
    for (const char* const name : {"interleaved", "looped_bfs"}) runs(name, {p, m, v});
}

TEST(Named, every_pass_of_a_stage_takes_micro_batches_in_their_order) {
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 4})
      for (const int32_t m : {1, 3, 8}) {
        std::map<std::pair<ActionKind, int32_t>, int32_t> last;
        for (const std::vector<Action>& actions : named(one.name, p, m).ranks)
          for (const Action& action : actions) {
            int32_t& before = last.try_emplace({action.kind, action.stage}, -1).first->second;
            EXPECT_EQ(action.micro_batch, before + 1) << one.name << " " << to_text(action);
            before = action.micro_batch;
          }
      }
}

/// Slots that go round: as many as are under way, more only where a later one overtakes an earlier one.
TEST(Named, rings) {
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 4}) {
      const PipelineSchedule schedule = named(one.name, p, 8);
      int32_t most = 1;
      for (const InFlight& stage : most_in_flight(schedule)) most = std::max(most, stage.inputs);
      EXPECT_EQ(ring_of(schedule), most) << one.name << " " << p;
    }
  const auto list = [](std::initializer_list<const char*> texts) {
    PipelineSchedule schedule{1, 4, {{}}};
    for (const char* const text : texts) schedule.ranks[0].push_back(parse_action(text).value());
    return schedule;
  };
  EXPECT_EQ(ring_of(list({"0F0", "0F1", "0B1", "0F2", "0B2", "0F3", "0B3", "0B0"})), 4);
  EXPECT_EQ(ring_of(list({"0F0", "0F1", "0B1", "0B0", "0F2", "0F3", "0B3", "0B2"})), 2);
}

TEST(Named, text_of_actions_both_ways) {
  for (const char* const text : {"1F0", "2I1", "0W3", "0B3", "4R12", "1UNSHARD", "3RESHARD", "2SEND_B2", "1RECV_F1",
                                 "0REDUCE_GRAD", "0SEND_F1", "0RECV_B0"})
    EXPECT_EQ(to_text(parse_action(text).value()), text);
  for (const char* const text :
       {"F0", "0F", "0X1", "0F1x", "-1F0", "0F-1", "1UNSHARD0", "0", "0 F1", "0SEND_1", "99999999999F1"})
    EXPECT_FALSE(parse_action(text)) << text;
}

}  // namespace
}  // namespace mesh
