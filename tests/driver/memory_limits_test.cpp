// What a host leaves to its ranks, read from a copy of /proc and /sys, and what is said where it is too little.
#include "driver/memory_limits.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>

#include "fit_mean.h"
#include "meshrt/driver.h"
#include "meshrt/emitted.h"
#include "meshrt/launch.h"
#include "report/memory_use.h"
#include "test_files.h"

namespace meshrt {
namespace {

using testing::HasSubstr;

constexpr int64_t mebi = 1 << 20;

class MemoryLimitsTest : public testing::Test {
 protected:
  MemoryLimitsTest() { folder_.write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:   8192 kB\n"); }
  ~MemoryLimitsTest() override {
    for (const char* name : {"SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE"}) unsetenv(name);
  }
  MemoryLimit limit() const { return *memory_limit(folder_.path("")); }

  TestFolder folder_;
};

TEST_F(MemoryLimitsTest, OfAHostWithoutLimits) {
  EXPECT_EQ(limit().bytes, 8 * mebi);
  EXPECT_EQ(limit().whose, "this host has");
  EXPECT_FALSE(memory_limit(folder_.path("nowhere")).has_value());
}

TEST_F(MemoryLimitsTest, OfControlGroupsAndThoseAroundThem) {
  folder_.write("proc/self/cgroup", "0::/jobs/one\n");
  folder_.write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  folder_.write("sys/fs/cgroup/jobs/one/memory.current", "100\n");
  EXPECT_EQ(limit().whose, "this host has");
  folder_.write("sys/fs/cgroup/jobs/memory.max", "5242880\n");
  folder_.write("sys/fs/cgroup/jobs/memory.current", "3145728\n");
  EXPECT_EQ(limit().bytes, 2 * mebi);
  EXPECT_EQ(limit().whose, "the control group `/jobs` with its limit of 5.0 MiB has");
  // What is only cached can be dropped.
  folder_.write("sys/fs/cgroup/jobs/memory.stat", "anon 5\ninactive_file 1048576\nactive_file 524288\n");
  EXPECT_EQ(limit().bytes, 3 * mebi + mebi / 2);
  folder_.write("sys/fs/cgroup/memory.max", "1048576\n");
  folder_.write("sys/fs/cgroup/memory.current", "1048577\n");
  EXPECT_EQ(limit().bytes, 0);
  EXPECT_EQ(limit().whose, "the control group `/` with its limit of 1.0 MiB has");
}

TEST_F(MemoryLimitsTest, OfControlGroupsOfVersionOne) {
  folder_.write("proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/slurm/job_7\n0::/ignored\n");
  folder_.write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "4194304\n");
  folder_.write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "3145728\n");
  folder_.write("sys/fs/cgroup/memory/slurm/job_7/memory.stat",
                "cache 1\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
  folder_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  folder_.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(limit().bytes, 3 * mebi);
  EXPECT_EQ(limit().whose, "the control group `/slurm/job_7` with its limit of 4.0 MiB has");
}

TEST_F(MemoryLimitsTest, OfSlurm) {
  setenv("SLURM_MEM_PER_NODE", "4", 1);
  EXPECT_EQ(limit().bytes, 4 * mebi);
  EXPECT_EQ(limit().whose, "Slurm (SLURM_MEM_PER_NODE=4) grants");
  setenv("SLURM_MEM_PER_CPU", "1", 1);
  setenv("SLURM_CPUS_ON_NODE", "3", 1);
  EXPECT_EQ(limit().bytes, 3 * mebi);
  EXPECT_EQ(limit().whose, "Slurm (SLURM_MEM_PER_CPU=1 for 3 CPUs) grants");
  unsetenv("SLURM_MEM_PER_CPU");
  for (const char* none : {"0", "all", "-1", ""}) {
    setenv("SLURM_MEM_PER_NODE", none, 1);
    EXPECT_EQ(limit().whose, "this host has") << none;
  }
}

TEST_F(MemoryLimitsTest, NamesKindsAndAWayOut) {
  ProgramInfo info;
  info.name = "Gpt";
  info.arena_bytes = 2'000'000;
  info.own_bytes = 3'000'000;
  info.memory = {{"parameter", 1'000'000}, {"optimizer", 1'000'000}, {"activation", 3'000'000}};
  const std::array both{0, 1};
  EXPECT_EQ(memory_problem(info, both, {10'000'000, "this host has"}), "");
  EXPECT_EQ(
      memory_problem(info, both, {9'999'999, "this host has"}),
      "2 ranks of `Gpt` need 9.5 MiB on this host, 4.8 MiB each, but this host has 9.5 MiB\n"
      "a rank holds: parameter 976.6 KiB, optimizer 976.6 KiB, activation 2.9 MiB\n"
      "a smaller batch, `batch -> AXIS { accumulate: N }`, or a layout that splits more of the activations, makes "
      "it less");
  info.mesh = {{"pipe", 2, 1}};
  info.memory_axes = {"pipe"};
  info.used_memory = {{{{0, 2'000'000}}, {{0, 3'000'000}}}, {{{0, 1'000'000}}, {}}};
  EXPECT_EQ(memory_problem(info, both, {6'000'000, "this host has"}), "");
  EXPECT_THAT(memory_problem(info, both, {5'999'999, "this host has"}),
              HasSubstr("2 ranks of `Gpt` need 5.7 MiB on this host, at most 4.8 MiB each"));
  EXPECT_EQ(memory_problem(info, std::array{1}, {1'000'000, "this host has"}), "");
  info.memory[1].second = 4'000'000;
  EXPECT_THAT(
      memory_problem(info, std::array{0}, {1, "Slurm grants"}),
      testing::AllOf(HasSubstr("1 rank of `Gpt` needs 4.8 MiB"), HasSubstr("splits parameters and optimizer state")));
}

TEST_F(MemoryLimitsTest, ProgramsTellWhatRanksUse) {
  ProgramInfo info;
  info.mesh = {{"data", 2, 3}, {"pipe", 3, 1}};
  info.arena_bytes = 5000;
  info.own_bytes = 100;
  EXPECT_EQ(memory_of(info, 4), (RankMemory{{{0, 5000}}, {{0, 100}}}));
  EXPECT_EQ(most_memory(info), 5100u);
  info.memory_axes = {"pipe"};
  info.used_memory.resize(3);
  add_used(info, 1, "arena", "0-2");
  add_used(info, 1, "arena", "4-5 6-8");
  add_used(info, 1, "own", "3-4");
  EXPECT_EQ(memory_of(info, 4), (RankMemory{{{0, 2048}, {4096, 5120}, {6144, 8192}}, {{3072, 4096}}}));
  EXPECT_EQ(memory_of(info, 5), RankMemory{});
  EXPECT_EQ(most_memory(info), 6u * 1024);
  EXPECT_EQ(joined_ranges({{8, 9}, {3, 5}, {5, 6}, {7, 7}, {4, 5}}), (std::vector<MemoryRange>{{3, 6}, {8, 9}}));
}

TEST_F(MemoryLimitsTest, OnlyWhatARankUsesBecomesMemory) {
  constexpr size_t mib = mebi;
  const auto used = [](int rank) {
    return rank == 0 ? RankMemory{{{0, 3 * mib}, {32 * mib, 34 * mib}}, {}} : RankMemory{{}, {{60 * mib, 64 * mib}}};
  };
  std::array<int64_t, 4> bytes{};
  const int code = launch_threads(2, [&](Rank& rank) {
    rank.allocate(64 * mib, 64 * mib, used);
    const auto at = static_cast<size_t>(2 * rank.rank());
    bytes[at] = resident(rank.arena(), rank.arena_bytes());
    bytes[at + 1] = resident(rank.own(), rank.own_bytes());
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_THAT(bytes, testing::ElementsAre(6 * mib, 0, 0, 4 * mib)) << "in pages of 2 MiB";
}

TEST_F(MemoryLimitsTest, ARunThatDoesNotFitEndsBeforeItsFirstStep) {
  setenv("SLURM_MEM_PER_NODE", "1", 1);
  std::string what;
  const int code = launch_threads(1, [&](Rank& rank) {
    FitMean program(1);
    program.grow(2 * mebi);
    try {
      prepare(rank, program);
    } catch (const Failure& failure) {
      what = failure.what();
      return exit_code(failure.cause);
    }
    return 0;
  });
  EXPECT_EQ(code, 3);
  EXPECT_THAT(what, HasSubstr("1 rank of `FitMean` needs 2.0 MiB on this host, 2.0 MiB each, but Slurm "
                              "(SLURM_MEM_PER_NODE=1) grants 1.0 MiB"));
  EXPECT_THAT(what, HasSubstr("a rank holds: activation 2.0 MiB"));
}

}  // namespace
}  // namespace meshrt
