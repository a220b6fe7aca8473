// Where ranks can have a thread for progress, by what they know of their host.
#include "driver/start.h"

#include <gtest/gtest.h>

namespace meshrt {
namespace {

TEST(CoreForProgress, IsOneMoreThanEachRankHasThreads) {
  EXPECT_TRUE(has_core_for_progress({.ranks = 1, .threads = 1, .cpus = 2, .own_cpus = 2, .own_cores = 2}));
  EXPECT_TRUE(has_core_for_progress({.ranks = 8, .threads = 1, .cpus = 16, .own_cpus = 16, .own_cores = 16}));
  EXPECT_FALSE(has_core_for_progress({.ranks = 2, .threads = 1, .cpus = 2, .own_cpus = 2, .own_cores = 2}));
  EXPECT_FALSE(has_core_for_progress({.ranks = 9, .threads = 1, .cpus = 16, .own_cpus = 16, .own_cores = 16}));
  EXPECT_FALSE(has_core_for_progress({.ranks = 4, .threads = 4, .cpus = 16, .own_cpus = 16, .own_cores = 16}));
  // Two threads of a core are no two cores.
  EXPECT_FALSE(has_core_for_progress({.ranks = 1, .threads = 1, .cpus = 2, .own_cpus = 2, .own_cores = 1}));
}

TEST(CoreForProgress, CountsTheRanksOfItsOwnPartOfTheHost) {
  // Each rank bound to two cores of its own; 64 ranks bound to two sockets of 32.
  EXPECT_TRUE(has_core_for_progress({.ranks = 8, .threads = 1, .cpus = 16, .own_cpus = 2, .own_cores = 2}));
  EXPECT_FALSE(has_core_for_progress({.ranks = 64, .threads = 1, .cpus = 64, .own_cpus = 32, .own_cores = 32}));
  EXPECT_TRUE(has_core_for_progress({.ranks = 32, .threads = 1, .cpus = 64, .own_cpus = 32, .own_cores = 32}));
  EXPECT_FALSE(has_core_for_progress({.ranks = 16, .threads = 1, .cpus = 16, .own_cpus = 1, .own_cores = 1}));
}

}  // namespace
}  // namespace meshrt
