// Which CPUs ranks may use: lists and topologies as the kernel writes them, quotas of nested control groups, and what
// ranks that another launcher has bound tell their agent.
#include "launch/cpus.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "launch/adopted_ranks.h"
#include "system/descriptor.h"
#include "system/wait.h"
#include "test_files.h"

namespace meshrt::test {

namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

TEST(CpuList, IsReadAsTheKernelWritesIt) {
  EXPECT_THAT(parse_cpu_list("0"), Optional(ElementsAre(0)));
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11"), Optional(ElementsAre(0, 1, 2, 3, 8, 10, 11)));
  EXPECT_THAT(parse_cpu_list("2046-2047"), Optional(ElementsAre(2046, 2047)));
  EXPECT_THAT(parse_cpu_list(""), Optional(IsEmpty()));
  for (const char* bad : {"-1", "0-", "3-1", "1,", ",1", "1,1", "2,1", "a", "0 1", "0-9999999", "99999999999", "0-1-2"})
    EXPECT_EQ(parse_cpu_list(bad), std::nullopt) << bad;
}

TEST(CpuList, IsWrittenBack) {
  for (const char* text : {"", "5", "0-3,8,10-11", "0,2,4", "1000-1500,2000"})
    EXPECT_EQ(cpu_list_text(*parse_cpu_list(text)), text);
}

class Machine : public testing::Test {
 protected:
  void core(const char* file, const std::string& threads) {
    const std::vector<int> cpus = *parse_cpu_list(threads);
    for (const int cpu : cpus)
      folder_.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + file, threads + "\n");
  }
  Cores cores(const std::string& cpus) const { return cores_of(*parse_cpu_list(cpus), root()); }
  std::optional<int> quota() const { return cpu_quota(root()); }
  std::string root() const { return folder_.path(""); }

  TestFolder folder_;
};

TEST_F(Machine, ThreadsOfACoreAreOneCore) {
  core("core_cpus_list", "0,4");
  core("core_cpus_list", "1,5");
  core("thread_siblings_list", "2-3");  // the name of older kernels
  EXPECT_EQ(cores("0-5"), (Cores{{0, 4}, {1, 5}, {2, 3}}));
  EXPECT_EQ(cores("0-1"), (Cores{{0}, {1}}));
  EXPECT_EQ(cores("4-5"), (Cores{{4}, {5}}));
  EXPECT_EQ(cores("6-7"), (Cores{{6}, {7}}));  // not told
}

TEST_F(Machine, RanksTakeACoreEachBeforeSecondThreads) {
  core("core_cpus_list", "0-1");
  core("core_cpus_list", "2-3");
  core("core_cpus_list", "4-5");
  EXPECT_THAT(spread(cores("0-5")), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(spread(cores("1-4")), ElementsAre(1, 2, 4, 3));
}

TEST_F(Machine, TheTightestQuotaOfNestedGroupsCounts) {
  EXPECT_EQ(quota(), std::nullopt);
  folder_.write("proc/self/cgroup", "0::/jobs/one\n");
  folder_.write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  folder_.write("sys/fs/cgroup/jobs/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 3);
  folder_.write("sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(Machine, AContainerSeesItsGroupAtTheRoot) {
  folder_.write("proc/self/cgroup", "0::/\n");
  folder_.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(Machine, QuotasOfVersionOne) {
  folder_.write("proc/self/cgroup", "9:cpuset:/else\n4:cpu,cpuacct:/slurm/job_7\n");
  folder_.write("sys/fs/cgroup/cpu/slurm/job_7/cpu.cfs_quota_us", "-1\n");
  folder_.write("sys/fs/cgroup/cpu/slurm/job_7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  folder_.write("sys/fs/cgroup/cpu/slurm/cpu.cfs_quota_us", "400000\n");
  folder_.write("sys/fs/cgroup/cpu/slurm/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 4);
}

TEST(Binding, LeavesFreeCpusToTheSystem) {
  const auto without_quota = [](size_t cpus, size_t cores) { return CpuRoom{cpus, cores, cpus}; };
  EXPECT_TRUE(binds(Binding::automatic, 4, without_quota(4, 4)));
  EXPECT_FALSE(binds(Binding::automatic, 2, without_quota(4, 4)));
  EXPECT_FALSE(binds(Binding::automatic, 4, {4, 4, 2}));  // CPUs 0 to 3 are also those of others
  EXPECT_FALSE(binds(Binding::automatic, 5, without_quota(4, 4)));
  EXPECT_TRUE(binds(Binding::automatic, 4, without_quota(8, 4)));  // a rank a core
  EXPECT_TRUE(binds(Binding::automatic, 8, without_quota(8, 4)));
  EXPECT_FALSE(binds(Binding::automatic, 6, without_quota(8, 4)));
  EXPECT_TRUE(binds(Binding::core, 2, without_quota(4, 4)));
  EXPECT_FALSE(binds(Binding::core, 5, without_quota(4, 4)));
  EXPECT_FALSE(binds(Binding::none, 4, without_quota(4, 4)));
}

TEST(Mask, IsOneCpuAfterPinning) {
  const std::vector<int> before = cpus_in_mask();
  ASSERT_FALSE(before.empty());
  std::thread([&] {
    keep_to({before.back()});
    EXPECT_THAT(cpus_in_mask(), ElementsAre(before.back()));
  }).join();
  EXPECT_EQ(cpus_in_mask(), before);
}

// ---- ranks of mpirun and srun, bound to a CPU each, and their agent, which was forked from one of them --------------

struct NoEvents : HostEvents {
  void entered(int, int) override { ++ranks; }
  void received(int, const Message&) override {}
  void ended(int, int) override {}
  void asked_to_end(int, int) override {}
  void lost(int, const std::string&) override {}
  int ranks = 0;
};

/// Enters as a rank from a thread of the CPUs `cpu` alone (-1: of all); the CPUs that its welcome tells of.
int cpus_told(const std::string& name, int rank, int cpu) {
  if (cpu >= 0) keep_to({cpu});
  const Descriptor socket = call_name(name, rank, "word", 10s);
  Message message;
  std::vector<int> files;
  while (receive_message(socket.get(), message, &files) == Received::nothing) std::this_thread::yield();
  for (const int file : files) close(file);
  return unpack_welcome(message.bytes).cpus;
}

std::vector<int> cpus_told_to_ranks_bound_to(const std::vector<int>& cpus) {
  const std::string name = "meshrt-test-" + std::to_string(getpid());
  const auto ranks = static_cast<int>(cpus.size());
  std::vector<std::future<int>> told;
  std::thread([&] {
    keep_to({cpus.front()});  // as the rank that the agent is forked from
    NoEvents events;
    AdoptedRanks agent(claim_name(name), "word", events);
    for (int rank = 0; rank < ranks; ++rank)
      told.push_back(std::async(std::launch::async, cpus_told, name, rank, cpus[rank]));
    while (events.ranks < ranks) agent.advance(), std::this_thread::sleep_for(1ms);
    HostJob job;
    job.placement = Placement::together(ranks, "here");
    agent.begin(job);
    for (auto& one : told) one.wait();
    agent.advance();  // they have left: else it would kill them with itself, and they are this process
  }).join();
  std::vector<int> result;
  for (auto& one : told) result.push_back(one.get());
  return result;
}

TEST(AdoptedRanks, HaveTheCpusOfAllTheirMasks) {
  const std::vector<int> cpus = cpus_in_mask();
  if (cpus.size() < 2 || allowed_cpus() < 2) GTEST_SKIP() << "one CPU";
  const std::vector<int> two(cpus.begin(), cpus.begin() + 2);
  EXPECT_THAT(cpus_told_to_ranks_bound_to(two), ElementsAre(2, 2));
  EXPECT_THAT(cpus_told_to_ranks_bound_to({two[0], two[0]}), ElementsAre(1, 1));  // one CPU for both: they take turns
}

// ---- waiting --------------------------------------------------------------------------------------------------------

/// How often a flag is looked at until it is there, at the n-th look.
int looks_until(int nth, const WaitPolicy& policy) {
  const std::atomic<uint32_t> aborted{0};
  int looks = 0;
  wait_until(
      policy, aborted, [&] { return ++looks >= nth; }, [] {}, [] { return std::string("late"); });
  return looks;
}

TEST(Waiting, EndsAtTheLookThatSeesTheFlag) {
  WaitPolicy spins, yields;
  yields.spin = 0ns;
  for (const int nth : {1, 2, 31, 499, 500, 501, 533, 2000})
    for (const WaitPolicy& policy : {spins, yields}) EXPECT_EQ(looks_until(nth, policy), nth);
}

TEST(Waiting, LooksAfterEveryPause) {
  // As many pauses alone, and as many with a look after each: a look costs little beside a pause. Eight pauses a look
  // would take eight times as long.
  constexpr int looks = 400;
  const auto time_of = [](auto run) {
    std::chrono::nanoseconds least = 1h;
    for (int i = 0; i < 200; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run();
      least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - start);
    }
    return least;
  };
  const auto pauses = time_of([] {
    for (int i = 0; i < looks; ++i) pause_core();
  });
  EXPECT_LT(time_of([] { looks_until(looks, WaitPolicy{}); }), 3 * pauses);
}

TEST(Waiting, StopsWhenTheJobIsAborted) {
  const std::atomic<uint32_t> aborted{1};
  EXPECT_THROW(wait_until(
                   WaitPolicy{}, aborted, [] { return false; }, [] {}, [] { return std::string(); }),
               Aborted);
}

TEST(Waiting, EndsAtTheDeadline) {
  const std::atomic<uint32_t> aborted{0};
  WaitPolicy policy;
  policy.set_timeout(0.01);
  EXPECT_THROW(wait_until(
                   policy, aborted, [] { return false; }, [] {}, [] { return std::string("late"); }),
               Failure);
}

}  // namespace

}  // namespace meshrt::test
