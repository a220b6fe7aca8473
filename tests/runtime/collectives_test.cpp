// Every collective on every transport: see cases.h.
#include <gtest/gtest.h>

#include "cases.h"
#include "meshrt/launch.h"

namespace meshrt::test {

class Threads : public testing::TestWithParam<int> {};

TEST_P(Threads, AgreesWithOracle) {
  EXPECT_EQ(launch_threads(GetParam(),
                           [](Rank& rank) {
                             run_all_cases(rank);
                             return 0;
                           }),
            0);
}
INSTANTIATE_TEST_SUITE_P(Ranks, Threads, testing::Range(1, 7));

}  // namespace meshrt::test
