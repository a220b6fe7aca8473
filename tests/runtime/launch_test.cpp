// The life and death of jobs: whatever happens to a rank, the job ends within a second with one message and the right
// code, and leaves nothing behind.
#include "meshrt/launch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "job.h"
#include "meshrt/failure.h"
#include "system/descriptor.h"
#include "transport/memory.h"

namespace meshrt::test {

namespace {

// Names in a directory that the runtime or UCX could have made.
std::vector<std::string> names_in(const char* directory, const std::vector<std::string>& marks) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (std::ranges::any_of(marks, [&](const std::string& mark) { return name.starts_with(mark); }))
      names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

int descriptors() { return static_cast<int>(names_in("/proc/self/fd", {""}).size()); }

// System V segments that nobody has attached.
int orphaned_segments() {
  std::ifstream table("/proc/sysvipc/shm");
  std::string line;
  int orphans = 0;
  for (std::getline(table, line); std::getline(table, line);) {
    std::istringstream fields(line);
    long key = 0, id = 0, mode = 0, bytes = 0, creator = 0, last = 0, attached = 0;
    fields >> key >> id >> mode >> bytes >> creator >> last >> attached;
    orphans += attached == 0;
  }
  return orphans;
}

// What a job could leave behind.
class Leftovers {
 public:
  void expect_none() const {
    EXPECT_EQ(rank_programs(), std::vector<pid_t>{});
    EXPECT_EQ(names_in("/dev/shm", marks_), shm_);
    EXPECT_EQ(names_in("/tmp", marks_), tmp_);
    EXPECT_EQ(descriptors(), descriptors_);
    EXPECT_EQ(orphaned_segments(), segments_);
  }

 private:
  std::vector<std::string> marks_{"meshrun", "meshrt-segment", "meshrt-arena", "ucx"};
  std::vector<std::string> shm_ = names_in("/dev/shm", marks_), tmp_ = names_in("/tmp", marks_);
  int descriptors_ = descriptors(), segments_ = orphaned_segments();
};

void expect_one_line(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors << "lacks " << part;
}

class Death : public testing::TestWithParam<const char*> {
 protected:
  std::vector<std::string> options(int ranks) const { return {"-n", std::to_string(ranks), "--transport", GetParam()}; }
};

struct End {
  const char* how;
  int code;
  const char* message;
};

TEST_P(Death, EndsTheJobWithinASecond) {
  const Leftovers before;
  std::mt19937 random(7);
  for (const End& end :
       {End{"kill", 3, "was killed by signal 9 (SIGKILL)"}, End{"exit", 3, "exited with code 1"},
        End{"exit0", 3, "exited with code 0"}, End{"abort", 3, "was killed by signal 6 (SIGABRT)"},
        End{"terminate", 130, "SIGTERM to rank "}, End{"hang up", 130, "has ended the run at once"},
        End{"throw", 70, "something broke"}, End{"data", 1, "the file tokens.bin is empty"},
        End{"usage", 2, "there is no option --strps"}, End{"kill", 3, "SIGKILL"}, End{"exit", 3, "code 1"}}) {
    const int ranks = 2 + static_cast<int>(random() % 3), which = static_cast<int>(random() % ranks);
    const int milliseconds = static_cast<int>(random() % 100);
    double soonest = 10;  // seconds; other load of the machine only adds to them
    for (int attempt = 0; attempt < 3 && soonest >= 1; ++attempt) {
      const Outcome outcome =
          run_job(options(ranks), {"loop", end.how, std::to_string(which), std::to_string(milliseconds)}, 10);
      EXPECT_EQ(outcome.code, end.code) << end.how << ": " << outcome.errors;
      expect_one_line(outcome, "rank " + std::to_string(which) + " (pid ");
      expect_one_line(outcome, end.message);
      soonest = std::min(soonest, outcome.end - std::stod(outcome.output));
      before.expect_none();
    }
    EXPECT_LT(soonest, 1) << end.how;
  }
}

TEST_P(Death, StoppedRankIsNamedAtTheDeadline) {
  const Leftovers before;
  auto options = this->options(3);
  options.insert(options.end(), {"--timeout", "2"});
  const Outcome outcome = run_job(options, {"loop", "stop", "1", "50"}, 10);
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  expect_one_line(outcome, "waited 2 s for rank 1");
  EXPECT_GT(outcome.seconds, 1.9);
  EXPECT_LT(outcome.seconds, 4);
  before.expect_none();
}

// A rank of a ring of messages: the others wait in sends and receives.
TEST_P(Death, InMessagesIsNamedToo) {
  const Leftovers before;
  const Outcome killed = run_job(options(3), {"ring", "kill", "1", "50"}, 10);
  EXPECT_EQ(killed.code, 3) << killed.errors;
  expect_one_line(killed, "rank 1 (pid ");
  expect_one_line(killed, "was killed by signal 9 (SIGKILL)");
  EXPECT_LT(killed.end - std::stod(killed.output), 1);
  auto options = this->options(2);  // of more, one may wait for another that waits
  options.insert(options.end(), {"--timeout", "2"});
  const Outcome stopped = run_job(options, {"ring", "stop", "1", "50"}, 10);
  EXPECT_EQ(stopped.code, 3) << stopped.errors;
  expect_one_line(stopped, "waited 2 s for rank 1 in call ");
  expect_one_line(stopped, " in slot 0 of channel 0 from rank ");
  expect_one_line(stopped, " of micro-batch ");
  before.expect_none();
}

// A rank that is stopped is found long before the timeout; one that computes for long is left alone.
TEST_P(Death, SilenceIsNoticedButALongStepIsNot) {
  const Leftovers before;
  setenv("MESHRT_HEARTBEAT", "1", 1);
  const Outcome stopped = run_job(options(3), {"loop", "stop", "1", "50"}, 10);
  EXPECT_EQ(stopped.code, 3) << stopped.errors;
  expect_one_line(stopped, "rank 1 (pid ");
  expect_one_line(stopped, "has given no sign of life for 1 s: it is stopped (SIGSTOP, or Ctrl-Z)");
  EXPECT_GT(stopped.end - std::stod(stopped.output), 0.8);
  EXPECT_LT(stopped.end - std::stod(stopped.output), 3);
  const Outcome busy = run_job(options(3), {"loop", "busy", "2", "50"}, 10);
  EXPECT_EQ(busy.code, 1) << busy.errors;
  expect_one_line(busy, "it took its time");
  setenv("MESHRT_HEARTBEAT", "soon", 1);
  const Outcome refused = run_job(options(1), {"return"}, 10);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.errors,
            "error: MESHRT_HEARTBEAT is 'soon'; give seconds that a rank may be silent, or 0 for ever\n");
  setenv("MESHRT_HEARTBEAT", "0", 1);
  auto patient = this->options(3);
  patient.insert(patient.end(), {"--timeout", "2"});
  expect_one_line(run_job(patient, {"loop", "stop", "1", "50"}, 10), "waited 2 s for rank 1");
  unsetenv("MESHRT_HEARTBEAT");
  before.expect_none();
}

TEST_P(Death, OfTheLauncherEndsTheRanks) {
  const Leftovers before;
  std::mt19937 random(3);
  for (const int signal : {SIGKILL, SIGINT, SIGTERM, SIGUSR1, SIGKILL}) {
    const int errors = memfd_create("errors", MFD_CLOEXEC);
    const pid_t launcher = start_job(options(3), {"loop", "none", "-1", "0"}, errors, errors);
    for (int i = 0; i < 500 && rank_programs().size() < 3; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(rank_programs().size(), 3U);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    kill(launcher, signal);
    int status = 0;
    waitpid(launcher, &status, 0);
    EXPECT_TRUE(signal == SIGKILL || WEXITSTATUS(status) == 130) << status;
    for (int i = 0; i < 100 && !rank_programs().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::array<char, 500> room{};
    const ssize_t length = pread(errors, room.data(), room.size(), 0);
    std::string said(room.data(), std::max<ssize_t>(0, length));
    const std::string end = fmt::format("SIG{} has ended the run at once\n", sigabbrev_np(signal));
    // A rank that never waits long for another one does not end in order, and says why.
    const std::string alone = "error: the launcher of this job has ended\n";
    while (signal == SIGKILL && said.starts_with(alone)) said.erase(0, alone.size());
    EXPECT_EQ(said, signal == SIGKILL ? "" : end);
    close(errors);
    before.expect_none();
  }
}
INSTANTIATE_TEST_SUITE_P(Transports, Death, testing::Values("arena", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Launch, ReturnsTheGreatestCode) {
  const Outcome outcome = run_job({"-n", "3"}, {"return"}, 10);
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(outcome.errors, "");
}

// Of each rank, in its own arena and in those of all.
std::vector<std::pair<int64_t, int64_t>> huge_bytes(int64_t arena) {
  const Outcome outcome = run_job({"-n", "2"}, {"pages", std::to_string(arena)}, 30);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  std::vector<std::pair<int64_t, int64_t>> found;
  std::istringstream lines(outcome.output);
  for (int64_t own = 0, all = 0; lines >> own >> all;) found.emplace_back(own, all);
  return found;
}

// Whether the system makes a huge page of small ones in shared memory, asked as the runtime asks.
bool makes_huge_pages() {
  constexpr int collapse = 25;  // MADV_COLLAPSE
  const Descriptor file(memfd_create("pages", MFD_CLOEXEC));
  if (ftruncate(file.get(), huge_page) != 0) return false;
  const Mapping page(huge_page, file.get());
  touch(page.data(), page.bytes());
  return madvise(page.data(), page.bytes(), collapse) == 0;
}

TEST(Launch, HugePagesOfOneRankAreThoseOfAll) {
  if (!makes_huge_pages()) GTEST_SKIP() << "this system gives shared memory no huge pages";
  const auto found = huge_bytes(16 << 20);
  ASSERT_EQ(found.size(), 2);
  const int64_t both = found[0].first + found[1].first;
  EXPECT_GT(both, 0);
  for (const auto& [own, all] : found) EXPECT_EQ(all, both);
}

TEST(Launch, AsksForNoHugePagesOfALittleMemory) {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string choices;
  if (std::getline(setting, choices); choices.find("[never]") == std::string::npos)
    GTEST_SKIP() << "this system gives shared memory huge pages that nobody has asked for";
  EXPECT_EQ(huge_bytes(1 << 20), (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 0}}));
}

TEST(Launch, RefusesWrongUse) {
  EXPECT_EQ(run_job({"-n", "0"}, {"return"}, 10).code, 2);
  EXPECT_EQ(run_job({"--transport", "pigeon"}, {"return"}, 10).code, 2);
  EXPECT_EQ(run_job({"--timeout", "-3"}, {"return"}, 10).code, 2);
  EXPECT_EQ(run_job({"-n", "2", "/no/such/program"}, {}, 10).code, 2);
}

TEST(Launch, ThreadsEndTogether) {
  testing::internal::CaptureStderr();
  const int code = launch_threads(3, [](Rank& rank) -> int {
    if (rank.rank() == 1) throw Failure(Cause::data, "no batch left");
    rank.allocate(1 << 20, 0);  // waits for rank 1
    return 0;
  });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: no batch left\n");
}

TEST(Launch, MoreMemoryThanThereIsIsRefused) {
  testing::internal::CaptureStderr();
  const int code = launch_threads(2, [](Rank& rank) {
    rank.allocate(size_t{1} << 45, 0);
    return 0;
  });
  EXPECT_EQ(code, 3);
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_NE(errors.find("this job of 2 ranks needs 70368744177664 bytes"), std::string::npos) << errors;
}

}  // namespace

}  // namespace meshrt::test
