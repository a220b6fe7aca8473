// What is left of a flight recorder when its rank, or the launcher that ends it, is killed: at each of its system
// calls.
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "report/flight_place.h"
#include "report/flight_reader.h"
#include "report/flight_recorder.h"
#include "test_files.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

/// Runs `action` in a process of its own, until its first so many stops before and after system calls, and kills it
/// there. False when it came to its end before.
bool is_killed_at(int stops, const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0) raise(SIGSTOP);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSTOPPED(status)) << "it cannot be traced";
  for (int stop = 0; stop < stops && WIFSTOPPED(status); ++stop) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) return false;
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return true;
}

/// A number that no other test has at this time.
int rank_of_this_test() { return getpid(); }

void record(const TestFolder& folder, int rank) {
  FlightRecorder recorder(folder.path(""), rank, rank + 1, {});
  recorder.step(7);
  recorder.finish("");
}

/// The files of recorders of the rank in this host's memory.
std::vector<std::string> in_memory(int rank) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm"))
    if (const std::string name = entry.path().filename(); name.find("-rank-" + std::to_string(rank)) != name.npos)
      names.push_back(name);
  return names;
}

std::vector<std::string> in_folder(const TestFolder& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path("flight")))
    names.push_back(entry.path().filename());
  return names;
}

// As when a rank brings its file home and its launcher, which ends the job for another rank's failure, kills it there.
TEST(FlightEnd, ARankMayBeKilledAtAnyMoment) {
  const int rank = rank_of_this_test();
  int readable = 0, stops = 0;
  for (bool killed = true; killed; ++stops) {
    const TestFolder folder;
    fs::create_directories(folder.path("flight"));
    const std::string path = flight_path(folder.path(""), rank);
    killed = is_killed_at(stops, [&] { record(folder, rank); });
    const auto before = read_flight(path);
    finish_flight(path);
    ASSERT_THAT(in_memory(rank), IsEmpty()) << "killed at stop " << stops;
    for (const std::string& name : in_folder(folder)) ASSERT_EQ(name, fs::path(path).filename()) << stops;
    if (!before) continue;
    ++readable;
    const auto after = read_flight(path);
    ASSERT_TRUE(after) << stops;
    EXPECT_EQ(after->step, before->step);
    EXPECT_EQ(after->finished, before->finished);
  }
  EXPECT_GT(stops, 20);
  EXPECT_GT(readable, 10);
}

// The next who looks takes away what is left.
TEST(FlightEnd, ALauncherMayBeKilledAtAnyMoment) {
  const int rank = rank_of_this_test();
  int stops = 0;
  for (bool killed = true; killed; ++stops) {
    const TestFolder folder;
    const std::string path = flight_path(folder.path(""), rank);
    const auto is_recorded = [&] {
      const auto flight = fs::is_symlink(path) ? read_flight(path) : std::nullopt;
      return flight && flight->step == 7;
    };
    for (int stop = 0; !is_recorded(); ++stop) ASSERT_TRUE(is_killed_at(stop, [&] { record(folder, rank); }));
    killed = is_killed_at(stops, [&] { finish_flight(path); });
    EXPECT_THAT(postmortem(folder.path("")), testing::HasSubstr("step 7")) << stops;
    ASSERT_THAT(in_memory(rank), IsEmpty()) << "killed at stop " << stops;
  }
  EXPECT_GT(stops, 10);
}

// A run in the folder of one whose rank was killed begins with nothing of that.
TEST(FlightEnd, TheNextRunTakesAwayWhatIsLeft) {
  const int rank = rank_of_this_test();
  int stops = 0;
  for (bool killed = true; killed; ++stops) {
    const TestFolder folder;
    killed = is_killed_at(stops, [&] { record(folder, rank); });
    record(folder, rank);
    ASSERT_THAT(in_memory(rank), IsEmpty()) << "killed at stop " << stops;
    EXPECT_TRUE(read_flight(flight_path(folder.path(""), rank))->finished);
  }
}

}  // namespace
}  // namespace meshrt
