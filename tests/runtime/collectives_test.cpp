// Every collective on every transport: see cases.h. And ranks that do not make the same calls: see misbehave.h.
#include "meshrt/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cases.h"
#include "channels.h"
#include "collectives/two_level.h"
#include "groups.h"
#include "interleave.h"
#include "job.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "misbehave.h"
#include "one_pass.h"
#include "plans.h"
#include "transport/progress_thread.h"

namespace meshrt::test {

struct Setting {
  std::string transport;
  int ranks;
  bool progress = false;  // each with a thread for it
};

std::string text(const Setting& setting) {
  return setting.transport + "_" + std::to_string(setting.ranks) + (setting.progress ? "_with_progress_threads" : "");
}
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
void PrintTo(const Setting& setting, std::ostream* out) { *out << text(setting); }

class Collectives : public testing::TestWithParam<Setting> {
 protected:
  const std::string& transport() const { return GetParam().transport; }
  int ranks() const { return GetParam().ranks; }

  /// As threads of this process.
  int launch(const std::function<int(Rank&)>& body) const {
    return launch_threads(ranks(), [&](Rank& rank) {
      const auto progress = GetParam().progress ? std::make_unique<ProgressThread>(rank.transport()) : nullptr;
      return body(rank);
    });
  }

  /// As processes.
  Outcome run_job(std::vector<std::string> task, double limit) const {
    if (GetParam().progress) task.emplace_back("--progress-thread");
    return test::run_job({"-n", std::to_string(ranks()), "--transport", transport()}, task, limit);
  }

  /// Runs a task of rank_program on all ranks.
  void run(const std::string& task, void (*body)(Rank&), double limit) const {
    if (transport() == "threads") {
      const auto all_well = [&](Rank& rank) {
        body(rank);
        return 0;
      };
      EXPECT_EQ(launch(all_well), 0);
      return;
    }
    const Outcome outcome = run_job({task}, limit);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
  }
};

std::string title(const testing::TestParamInfo<Setting>& info) { return text(info.param); }

TEST_P(Collectives, AgreeWithOracle) { run("cases", run_all_cases, 120); }

TEST_P(Collectives, AreMovedAlongInAnyOrder) { run("interleaved", run_interleaved, 120); }

TEST_P(Collectives, GoOverGroupsOfSomeRanksAndChannels) { run("groups", run_groups, 120); }

TEST_P(Collectives, GoOverSlotsOfChannels) { run("channels", run_channels, 120); }

TEST_P(Collectives, UpdateInOnePass) { run("one_pass", run_one_pass, 120); }
TEST_P(Collectives, ArePlannedOnce) { run("plans", run_plans, 120); }

// The thread sanitizer sees one process alone, and makes all of them slow.
#ifdef __SANITIZE_THREAD__
constexpr bool processes = false;
#else
constexpr bool processes = true;
#endif

std::vector<Setting> settings(const std::vector<int>& ranks, bool progress = false) {
  std::vector<Setting> all;
  for (const char* transport : {"threads", "arena", "ucx"})
    if (processes || transport == std::string("threads"))
      for (const int n : ranks) all.push_back({transport, n, progress});
  return all;
}
// As between hosts.
TEST(Network, AgreesWithOracle) {
  if (!processes) GTEST_SKIP() << "this build sees one process alone";
  setenv("UCX_TLS", "self,tcp", 1);
  setenv("UCX_NET_DEVICES", "lo", 1);
  const Outcome outcome = run_job({"-n", "3", "--transport", "ucx"}, {"cases"}, 120);
  unsetenv("UCX_TLS");
  unsetenv("UCX_NET_DEVICES");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
}

INSTANTIATE_TEST_SUITE_P(Transports, Collectives, testing::ValuesIn(settings({1, 2, 3, 4, 6})), title);
INSTANTIATE_TEST_SUITE_P(MovedByThreads, Collectives, testing::ValuesIn(settings({2, 3}, true)), title);

// With a thread for progress they need nothing of their rank.
class BesideTheirRank : public Collectives {};

TEST_P(BesideTheirRank, GoOn) { run("beside", run_beside, 60); }

INSTANTIATE_TEST_SUITE_P(MovedByThreads, BesideTheirRank, testing::ValuesIn(settings({2, 3}, true)), title);

// Ranks fail at any moment of what their threads for progress do: all end, and nothing is touched that is gone.
TEST(ProgressThread, EndsWithItsRank) {
  testing::internal::CaptureStderr();
  for (int round = 0; round < 400; ++round) {
    const int code = launch_threads(2, [&](Rank& rank) -> int {
      rank.allocate(1 << 20, 0);
      const Group& group = rank.group(std::vector<Axis>{{rank.ranks(), 1}});
      const ProgressThread progress(rank.transport());
      auto* const data = reinterpret_cast<float*>(rank.arena());
      all_reduce_start(rank, group, {1, "sum"}, data, 1 << (round % 18), Type::f32, Reduce::sum);
      std::this_thread::sleep_for(std::chrono::microseconds(round % 40));
      throw Failure(Cause::data, "a number is not finite");
    });
    ASSERT_EQ(code, 1);
  }
  testing::internal::GetCapturedStderr();
}

// A thread that is to give way at once goes on from sum to sum of 64 KiB, and leaves what one that need not leaves.
TEST(ProgressThread, GivesWayWithinASum) {
  constexpr int64_t count = 1 << 20, stops_of_a_slice = count / 2 * 4 / bytes_between_pauses;
  const std::vector<int64_t> begin{0, count / 2, count};
  const std::atomic<bool> wanted = true;
  const int code = launch_threads(2, [&](Rank& rank) -> int {
    rank.allocate(3 * count * 4, 0);
    const Group& group = rank.group(std::vector<Axis>{{rank.ranks(), 1}});
    auto* const whole = reinterpret_cast<float*>(rank.arena());
    auto* const other = whole + count;
    for (int64_t i = 0; i < count; ++i) whole[i] = other[i] = static_cast<float>(i + rank.rank());
    float* const part = other + count;
    uint32_t sequence = 0;
    std::vector<Call> calls;
    calls.push_back(all_reduce_call(group, {1, "sum"}, whole, count, Type::f32, Reduce::sum));
    calls.push_back(reduce_scatter_call(group, {2, "part"}, other, part, Blocks{1, begin, 1}, Type::f32, Reduce::sum));
    for (Call& call : calls) {
      Stage stage(rank.transport(), group, ++sequence, std::move(call));
      int64_t stops = 0;
      while (!stage.task.advance(GivesWay(wanted)))
        if (stage.task.can_go_on()) ++stops;
        else std::this_thread::yield();
      EXPECT_GE(stops, stops_of_a_slice);
    }
    const int64_t first = begin[static_cast<size_t>(group.index)];
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(whole[i], static_cast<float>(2 * i + 1));
    for (int64_t i = 0; i < count / 2; ++i) EXPECT_EQ(part[i], static_cast<float>(2 * (first + i) + 1));
    return 0;
  });
  EXPECT_EQ(code, 0);
}

class Divergence : public Collectives {};

TEST_P(Divergence, IsNamedOnBothSides) {
  for (const Misbehaviour& kind : misbehaviours()) {
    if (kind.in_shared_memory && transport() == "ucx") continue;
    Outcome outcome;
    if (transport() == "threads") {
      testing::internal::CaptureStderr();
      outcome.code = launch([&](Rank& rank) { return misbehave(rank, kind.name); });
      outcome.errors = testing::internal::GetCapturedStderr();
    } else {
      outcome = run_job({"misbehave", kind.name}, 10);
    }
    EXPECT_EQ(outcome.code, 3) << kind.name << ": " << outcome.errors;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << kind.name << ": " << outcome.errors;
    for (const std::string& part : kind.message)
      EXPECT_NE(outcome.errors.find(part), std::string::npos)
          << kind.name << ": " << outcome.errors << "lacks " << part;
  }
}
INSTANTIATE_TEST_SUITE_P(Transports, Divergence, testing::ValuesIn(settings({2, 4})), title);
INSTANTIATE_TEST_SUITE_P(MovedByThreads, Divergence, testing::ValuesIn(settings({2, 4}, true)), title);

}  // namespace meshrt::test
