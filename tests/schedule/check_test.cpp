// Lists with a mistake, each with its place.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/schedule/check_schedule.h"
#include "tests/schedule/lists.h"

namespace mesh {
namespace {

using testing::ElementsAre;

std::vector<std::string> mistakes(const std::vector<std::string>& ranks) {
  std::vector<std::string> found;
  for (const ScheduleMistake& one : check_schedule(tests::schedule(ranks)))
    found.push_back(fmt::format("{}.{}: {}", one.rank, one.action ? std::to_string(*one.action) : "end", one.message));
  return found;
}

TEST(Check, right_lists) {
  EXPECT_THAT(mistakes({"0F0 . 0B0", "1F0 1I0 1W0"}), ElementsAre());
  EXPECT_THAT(mistakes({"0F0 1F0 1B0 0R0 0B0 0REDUCE_GRAD"}), ElementsAre());
  EXPECT_THAT(mistakes({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}), ElementsAre());
}

TEST(Check, order) {
  EXPECT_THAT(mistakes({"0B0 0F0"}), ElementsAre("0.0: 0B0 has no 0F0 before it"));
  EXPECT_THAT(mistakes({"0F0 0W0 0I0"}), ElementsAre("0.1: 0W0 has no 0I0 before it"));
  EXPECT_THAT(mistakes({"0F0 0B0 0R0"}), ElementsAre("0.2: 0R0 comes after the gradient that it is for"));
  EXPECT_THAT(mistakes({"0F0 0F1 0B0 0REDUCE_GRAD 0B1"}),
              ElementsAre("0.3: 0REDUCE_GRAD comes before 0B1, which adds to the sum"));
}

TEST(Check, completeness) {
  EXPECT_THAT(mistakes({"0F0 0B0", "1F0 1F1 1B0 1B1"}), ElementsAre("0.end: stage 0 lacks 0F1, 0B1"));
  EXPECT_THAT(mistakes({"0F0 0F1 0I0 0I1 0W0"}), ElementsAre("0.end: stage 0 lacks 0W1"));
  EXPECT_THAT(mistakes({"0F0 0F0 0B0"}), ElementsAre("0.1: 0F0 stands twice in its list"));
  EXPECT_THAT(mistakes({"0F0 0I0 0W0 0B0"}), ElementsAre("0.3: 0B0 computes a gradient that is there already"));
  EXPECT_THAT(mistakes({"0F0 0B0 2F0 2B0"}), ElementsAre("-1.end: no rank computes stage 1"));
  EXPECT_THAT(mistakes({"0F0 0B0", "0F0 1F0 1B0"}), ElementsAre("1.0: 0F0 is of a stage that lies on rank 0 already"));
}

TEST(Check, communication) {
  // A list of computations with one send in it lacks the others.
  EXPECT_THAT(mistakes({"0F0 0SEND_F0 0B0", "1F0 1B0"}),
              ElementsAre("0.2: 0B0 has no 0RECV_B0 before it", "1.0: 1F0 has no 1RECV_F0 before it",
                          "1.end: stage 1 lacks 1SEND_B0"));
  EXPECT_THAT(mistakes({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1RECV_F0 1F0 1B0 1SEND_B0"}),
              ElementsAre("1.1: 1RECV_F0 stands twice in its list"));
  EXPECT_THAT(mistakes({"0SEND_F0 0F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}),
              ElementsAre("0.0: 0SEND_F0 sends what is not computed yet"));
  EXPECT_THAT(mistakes({"0F0 0SEND_F0 1RECV_F0 1F0 1B0 0B0"}),
              ElementsAre("0.1: 0SEND_F0 goes to no other rank", "0.2: 1RECV_F0 comes from no other rank"));
}

}  // namespace
}  // namespace mesh
