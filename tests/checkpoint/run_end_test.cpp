// When runs write checkpoints, and what they leave where they are ended.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "resumed.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;

TEST_F(ResumeTest, WritesEveryFewStepsAndKeepsTheNewest) {
  for (const char* how : {"true", "false"}) {
    const std::string name = std::string("c") + how;
    const Ran ran =
        run(2, 1, name, std::string("train.steps=11 checkpoint.every=2 checkpoint.keep=3 checkpoint.async=") + how);
    EXPECT_EQ(ran.code, 0) << ran.failure;
    EXPECT_EQ(CheckpointFolder(folder_.path(name)).steps(), (std::vector<int64_t>{8, 10, 11}));
    EXPECT_EQ(CheckpointFolder(folder_.path(name)).latest(), 11);
    EXPECT_NE(ran.out.find("checkpoint of step 2: " + name + "/step-2, "), std::string::npos) << ran.out;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path(name)), {}), 5) << "with the link and the lock";
  }
  expect_same("ctrue/step-8", "cfalse/step-8");  // a copy is of its step, whatever the steps after it do
}

TEST_F(ResumeTest, ASignalEndsTheRunWithACheckpoint) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const std::string name = strsignal(signal);
    std::jthread sender([&](const std::stop_token& stop) {
      while (!fs::exists(folder_.path(name + "/step-2")) && !stop.stop_requested()) std::this_thread::yield();
      if (!stop.stop_requested()) kill(getpid(), signal);
    });
    const Ran ran = run(2, 1, name, "train.steps=100000000 checkpoint.every=2 checkpoint.keep=1 log.every=100000000");
    EXPECT_EQ(ran.code, 75) << ran.failure;
    const int64_t step = CheckpointFolder(folder_.path(name)).latest().value_or(0);
    EXPECT_GE(step, 2);
    const std::string what = std::string(signal == SIGTERM ? "SIGTERM" : "SIGUSR1") + " has ended the run after step " +
                             std::to_string(step) + " of 100000000\n";
    EXPECT_NE(ran.out.find(what), std::string::npos) << ran.out.substr(ran.out.size() - 300);
  }
}

TEST_F(ResumeTest, TheTimeOfARunIsLimited) {
  const Ran ran = run(2, 1, "c", "train.steps=100000000 train.max_time=1 log.every=100000000");
  EXPECT_EQ(ran.code, 75) << ran.failure;
  EXPECT_NE(ran.out.find("\ntrain.max_time has ended the run after step "), std::string::npos) << ran.out;
  EXPECT_GT(CheckpointFolder(folder_.path("c")).latest().value_or(0), 0);
}

// A full disk: the checkpoint is lost, the run and the older checkpoint are not. Files above a limit fail like on one.
TEST_F(ResumeTest, AFullDiskLosesOnlyTheCheckpointUnderWay) {
  run(2, 1, "c", "train.steps=4");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {100, 900}) {  // not even the header; not all numbers
    const rlimit small{limit, before.rlim_max};
    for (const char* how : {"true", "false"}) {
      // The log is larger than the limit: without one.
      const std::string keys =
          std::string("train.steps=8 checkpoint.every=2 log.jsonl=/dev/null checkpoint.async=") + how;
      std::string failure, out;
      setrlimit(RLIMIT_FSIZE, &small);
      const Ran ran = run(2, 1, "c", keys);
      setrlimit(RLIMIT_FSIZE, &before);
      EXPECT_EQ(ran.code, 3);
      std::string said = ran.failure;
      if (const size_t run = said.find(".step-8.") + 8; said.find('.', run) == run + 16) said.erase(run, 17);
      EXPECT_EQ(said,
                "the last checkpoint is lost: cannot write "
                "`c/.step-8.unfinished/model-00001-of-00001.safetensors`: File too large; c/step-4 stays");
      if (limit == 900) {  // what is told goes to a file too
        EXPECT_NE(ran.out.find("the checkpoint of step 6 is lost"), std::string::npos) << ran.out;
        EXPECT_EQ(ran.out.find("the checkpoint of step 8"), std::string::npos) << ran.out;
      }
      EXPECT_EQ(CheckpointFolder(folder_.path("c")).steps(), std::vector<int64_t>{4});
      EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path("c")), {}), 3) << "something is left";
    }
  }
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(run(2, 1, "c", "train.steps=8").code, 0);
}

}  // namespace
}  // namespace meshrt
