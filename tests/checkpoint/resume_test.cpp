// Runs that stop and go on, under the same and under other meshes and precisions: what they go on from.
#include <filesystem>
#include <tuple>

#include "resumed.h"
#include "system/folder_lock.h"
#include "system/host_name.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;

/// Variables of a launcher while it lives.
class Launched {
 public:
  explicit Launched(std::vector<std::pair<const char*, const char*>> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name, value, 1);
  }
  ~Launched() {
    for (const auto& [name, value] : variables_) unsetenv(name);
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

 private:
  std::vector<std::pair<const char*, const char*>> variables_;
};

// A scheduler starts a job that it had to end with the same command, whatever that said of where to begin.
TEST_F(ResumeTest, ARestartedJobGoesOnFromWhatItHasWritten) {
  run(1, 1, "origin", "train.steps=3");
  int number = 0;
  for (const std::string& resume : {std::string("never"), folder_.path("origin")})
    for (const auto& [job, count, name] : {std::tuple{"SLURM_JOB_ID", "SLURM_RESTART_COUNT", "8"},
                                           {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "8"},
                                           {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "none"},
                                           {"MESHRT_JOB", "MESHRT_RESTART", "8"}}) {
      const std::string folder = "job" + std::to_string(++number), keys = " checkpoint.resume=" + resume;
      {
        const Launched first({{job, name}, {count, "0"}});
        EXPECT_EQ(run(1, 1, folder, "train.steps=6 checkpoint.every=2" + keys).code, 0);
      }
      {
        const Launched second({{job, name}, {count, "1"}});
        const Ran again = run(1, 1, folder, "train.steps=8" + keys);
        EXPECT_NE(again.out.find("goes on from " + folder + "/step-6"), std::string::npos)
            << again.out << again.failure;
      }
      // The checkpoints are of a job before: this one does what it is told.
      const std::string refused = "`" + folder + "` holds checkpoints of another run (step-";
      for (const char* other : {"9", ""}) {
        const Launched third({{job, other}, {count, "1"}});
        const Ran anew = run(1, 1, folder, "train.steps=9" + keys);
        EXPECT_TRUE(anew.failure.starts_with(refused)) << job << anew.failure << anew.out;
        EXPECT_EQ(run(1, 1, folder, "train.steps=8 checkpoint.resume=auto").code, 0);
      }
      const Launched not_again({{job, name}, {count, "0"}});
      EXPECT_TRUE(run(1, 1, folder, "train.steps=9" + keys).failure.starts_with(refused));
    }
}

TEST_F(ResumeTest, RunsDoNotMixInOneFolder) {
  run(1, 1, "origin", "train.steps=3");
  run(1, 1, "c", "train.steps=6 checkpoint.every=3");
  folder_.write("c/.step-9.unfinished/model", "");
  const std::string before = folder_.read("c/step-6/checkpoint.json");
  for (const std::string& resume : {std::string("never"), folder_.path("origin")}) {
    const Ran ran = run(1, 1, "c", "train.steps=6 checkpoint.resume=" + resume);
    EXPECT_EQ(ran.code, 1);
    EXPECT_TRUE(
        ran.failure.starts_with("`c` holds checkpoints of another run (step-3, step-6): this one would begin anew "
                                "among them\n  --> run.yaml:2"))
        << ran.failure;
    EXPECT_NE(ran.failure.find("another folder, or `checkpoint.resume=auto` to go on from step 6, or remove them"),
              std::string::npos);
  }
  EXPECT_EQ(folder_.read("c/step-6/checkpoint.json"), before);
  EXPECT_TRUE(fs::exists(folder_.path("c/.step-9.unfinished"))) << "it was touched";
  // Going back within the folder is told.
  const Ran back = run(1, 1, "c", "train.steps=4 checkpoint.resume=" + folder_.path("c/step-3"));
  EXPECT_NE(back.out.find("`c` also holds step-6 of before: they stay until this run writes its own of these steps\n"),
            std::string::npos)
      << back.out << back.failure;
  EXPECT_EQ(CheckpointFolder(folder_.path("c")).latest(), 4);
  fs::remove(folder_.path("c/latest"));
  const Ran on = run(1, 1, "c", "train.steps=5");
  EXPECT_NE(on.out.find("goes on from c/step-4 "), std::string::npos) << on.out;
}

TEST_F(ResumeTest, TwoRunsAtOnceDoNotShareAFolder) {
  run(1, 1, "c", "train.steps=2");
  folder_.write("c/.step-9.unfinished/model", "");
  {
    const FolderLock other(folder_.path("c"), "c", "");
    const Ran ran = run(1, 1, "c", "train.steps=4");
    EXPECT_EQ(ran.code, 3);
    EXPECT_EQ(ran.failure, "another run (process " + std::to_string(getpid()) + " on " + host_name() +
                               ") writes into `c`: wait for its end, or name another folder with `checkpoint.dir`");
    EXPECT_TRUE(fs::exists(folder_.path("c/.step-9.unfinished")));
  }
  EXPECT_EQ(run(1, 1, "c", "train.steps=4").code, 0);
}

// On NFS a run may die when the old checkpoint of its step has gone and the new one is not there yet.
TEST_F(ResumeTest, GoesOnFromACheckpointThatWasBeingReplaced) {
  run(1, 1, "c", "train.steps=4");
  fs::rename(folder_.path("c/step-4"), folder_.path("c/.step-4.beef.removed"));
  const Ran on = run(1, 1, "c", "train.steps=5");
  EXPECT_NE(on.out.find("goes on from c/step-4 after step 4\n"), std::string::npos) << on.out << on.failure;
  fs::rename(folder_.path("c/step-5"), folder_.path("c/.step-5.beef.unfinished"));
  fs::remove_all(folder_.path("c/step-4"));
  const Ran anew = run(1, 1, "c", "train.steps=5 checkpoint.resume=never");
  EXPECT_TRUE(anew.failure.starts_with("`c` holds checkpoints of another run (step-5)")) << anew.failure;
}

TEST_F(ResumeTest, GoesOnAsIfNothingHadHappened) {
  const Ran whole = run(2, 2, "whole", "train.steps=20");
  EXPECT_EQ(whole.code, 0) << whole.failure;
  ASSERT_EQ(whole.losses.size(), 20U);
  ASSERT_EQ(run(2, 2, "parts", "train.steps=10").losses.size(), 10U);
  const Ran rest = run(2, 2, "parts", "train.steps=20");
  EXPECT_EQ(rest.losses, whole.losses);
  EXPECT_NE(rest.out.find("goes on from parts/step-10 after step 10\n"), std::string::npos) << rest.out;
  EXPECT_NE(rest.out.find("done: 10 steps in"), std::string::npos) << rest.out;
  expect_same("whole/step-20", "parts/step-20");
  const Ran nothing = run(2, 2, "parts", "train.steps=20 train.params=" + folder_.path("whole/step-20"));
  EXPECT_NE(nothing.out.find("nothing is left to do of train.steps=20"), std::string::npos) << nothing.out;
  EXPECT_NE(nothing.out.find("train.params is not read"), std::string::npos) << nothing.out;
  // The seed of the checkpoint stays, unless another one is asked for; so does the place in the data.
  run(2, 2, "seeded", "train.steps=10 train.seed=5");
  EXPECT_EQ(SavedTensors::open(folder_.path("seeded")).manifest()->moment.seed, 5U);
  EXPECT_EQ(SavedTensors::open(folder_.path("seeded")).manifest()->moment.position, 40);
  run(2, 2, "seeded", "train.steps=11");
  EXPECT_EQ(SavedTensors::open(folder_.path("seeded")).manifest()->moment.seed, 5U);
  run(2, 2, "seeded", "train.steps=12 train.seed=6");
  EXPECT_EQ(SavedTensors::open(folder_.path("seeded")).manifest()->moment.seed, 6U);
}

TEST_F(ResumeTest, AnyMeshReadsAndWritesTheSameTensors) {
  const Ran whole = run(2, 2, "whole", "train.steps=20");
  run(2, 2, "first", "train.steps=10");
  const std::pair<int, int> meshes[] = {{1, 1}, {2, 1}, {1, 3}, {3, 2}, {1, 8}};
  for (const auto& [rows, columns] : meshes) {
    const std::string name = "on" + std::to_string(rows) + "x" + std::to_string(columns);
    const std::string from = " checkpoint.resume=" + folder_.path("first");
    run(rows, columns, name, "train.steps=10" + from);
    expect_same("first/step-10", name + "/step-10");
    const Ran rest = run(rows, columns, name, "train.steps=20");
    EXPECT_EQ(rest.code, 0) << rest.failure;
    expect_same("whole/step-20", name + "/step-20");
  }
}

TEST_F(ResumeTest, PrecisionsAreConverted) {
  run(2, 2, "f64", "train.steps=3");
  const Ran down = run(1, 2, "f32", "train.steps=3 checkpoint.resume=" + folder_.path("f64"), Type::f32);
  EXPECT_EQ(down.code, 0) << down.failure;
  const SavedTensors wide = SavedTensors::open(folder_.path("f64")), narrow = SavedTensors::open(folder_.path("f32"));
  for (const char* name : {"tile", "tile.moment1", "row"}) {
    const auto* from = reinterpret_cast<const double*>(wide.find(name)->data.data());
    const auto* to = reinterpret_cast<const float*>(narrow.find(name)->data.data());
    for (size_t i = 0; i < narrow.find(name)->data.size() / 4; ++i) EXPECT_EQ(to[i], static_cast<float>(from[i]));
  }
  run(3, 1, "f64again", "train.steps=3 checkpoint.resume=" + folder_.path("f32"));
  run(1, 1, "f32again", "train.steps=3 checkpoint.resume=" + folder_.path("f64again"), Type::f32);
  expect_same("f32/step-3", "f32again/step-3");
}

TEST_F(ResumeTest, ResumeMayBeForbiddenOrGiven) {
  const Ran first = run(1, 1, "c", "train.steps=6 checkpoint.every=3");
  EXPECT_EQ(run(1, 1, "d", "train.steps=6 checkpoint.resume=never").losses, first.losses);
  const Ran again = run(1, 1, "c", "train.steps=8 checkpoint.resume=" + folder_.path("c/step-3"));
  EXPECT_NE(again.out.find("goes on from c/step-3 after step 3"), std::string::npos) << again.out;
  EXPECT_EQ(again.losses.size(), 8U);
  EXPECT_TRUE(std::equal(first.losses.begin(), first.losses.end(), again.losses.begin()));
  const Ran done = run(1, 1, "c", "train.steps=8");
  EXPECT_EQ(done.code, 0);
  EXPECT_NE(done.out.find("done: 0 steps"), std::string::npos) << done.out;
  for (const Ran& kept : {again, done})
    EXPECT_NE(kept.out.find("\nthe parameters are in c/step-8\n"), std::string::npos) << kept.out;
}

}  // namespace
}  // namespace meshrt
