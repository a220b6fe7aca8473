// Runs that stop and go on, under the same and under other meshes and precisions.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "file_system.h"
#include "meshrt/driver.h"
#include "meshrt/launch.h"
#include "meshrt/npy.h"
#include "ring_program.h"
#include "system/folder_lock.h"
#include "system/host_name.h"
#include "test_files.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    std::vector<double> values(22);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
    const std::vector<int64_t> shape = {22};
    write_npy(folder_.path("x.npy"), Type::f64, shape, std::as_bytes(std::span(values)));
  }

  struct Ran {
    int code = 0;
    std::string out, failure;
    std::vector<nlohmann::json> lines;
    std::vector<double> losses;  // by step, of the log
  };
  /// Trains on rows x columns ranks. `name` is that of the folder of checkpoints and of the log.
  Ran run(int rows, int columns, const std::string& name, const std::string& keys, Type real = Type::f64) {
    const std::string text = "data: { x: {file: x.npy} }\ncheckpoint: { dir: '" + folder_.path(name) +
                             "' }\nlog: { every: 1, jsonl: '" + folder_.path(name + ".jsonl") + "' }\n";
    std::vector<std::string> overrides;
    for (size_t begin = 0; begin < keys.size();) {
      const size_t end = std::min(keys.find(' ', begin), keys.size());
      overrides.push_back(keys.substr(begin, end - begin));
      begin = end + 1;
    }
    Ran result;
    std::mutex mutex;
    std::FILE* out = std::fopen(folder_.path("out.txt").c_str(), "w");
    result.code = launch_threads(rows * columns, [&](Rank& rank) {
      try {
        const RunFile run_file = parse_run_file("run.yaml", text, folder_.path(""), overrides);
        RingProgram program(rows, columns, real);
        return train(rank, program, run_file, {out, Color::never});
      } catch (const Failure& failure) {
        const std::lock_guard lock(mutex);
        result.failure = folder_.without_folder(failure.what());
        return exit_code(failure.cause);
      }
    });
    std::fclose(out);
    result.out = folder_.without_folder(folder_.read("out.txt"));
    std::ifstream lines(folder_.path(name + ".jsonl"));
    int64_t first = 0;
    for (std::string line; std::getline(lines, line);) {
      result.lines.push_back(nlohmann::json::parse(line));
      if (!result.lines.back().contains("loss")) continue;
      // Each step once, whatever earlier runs had told: the lines are those of one run.
      const int64_t step = result.lines.back().at("step");
      if (result.losses.empty()) first = step;
      EXPECT_EQ(step, first + static_cast<int64_t>(result.losses.size()));
      result.losses.push_back(result.lines.back().at("loss"));
    }
    return result;
  }
  /// The tensors of two checkpoints are the same, bit by bit, and so are the files.
  void expect_same(const std::string& a, const std::string& b) const {
    const SavedTensors first = SavedTensors::open(folder_.path(a)), second = SavedTensors::open(folder_.path(b));
    ASSERT_EQ(first.tensors().size(), 6U);
    for (const NamedArray& tensor : first.tensors()) {
      ASSERT_NE(second.find(tensor.name), nullptr) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(tensor.data, second.find(tensor.name)->data)) << tensor.name << " of " << b;
    }
    for (const auto& entry : fs::directory_iterator(first.path())) {
      const std::string name = entry.path().filename();
      if (name == "checkpoint.json") continue;  // it tells the mesh
      EXPECT_EQ(folder_.read(fs::path(a) / name), folder_.read(fs::path(b) / name)) << name;
    }
    EXPECT_EQ(damaged_tensors(second), std::vector<std::string>{});
  }

  TestFolder folder_;
};

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

TEST_F(ResumeTest, AFolderThatCannotBeLockedIsTold) {
  EXPECT_EQ(run(1, 1, "c", "train.steps=2").out.find("locked"), std::string::npos);
  FileSystem::lock_error = ENOLCK;
  const Ran ran = run(1, 1, "c", "train.steps=3");
  FileSystem::mend();
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(
      ran.out.find("`c` cannot be locked (No locks available): nothing keeps a second run from writing into it\n"),
      std::string::npos)
      << ran.out;
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

TEST_F(ResumeTest, ADataFileThatWasReplacedIsTold) {
  run(1, 1, "c", "train.steps=2");
  const std::string before = folder_.read("x.npy");
  const auto told = [&](const std::string& bytes) {
    folder_.write("x.npy", bytes);
    fs::remove_all(folder_.path("c/step-3"));
    const Ran ran = run(1, 1, "c", "train.steps=3");
    EXPECT_EQ(ran.code, 0) << ran.failure;
    const size_t begin = ran.out.find("the data file");
    return begin == std::string::npos ? "" : ran.out.substr(begin, ran.out.find('\n', begin) - begin);
  };
  EXPECT_EQ(told(before), "");
  std::string other = before;
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_EQ(
      told(other),
      "the data file `x: x.npy` is another one: its 304 bytes are not those of then; it is read on after 8 samples");
  const std::vector<double> values(24, 1.0);
  const std::vector<int64_t> shape = {24};
  write_npy(folder_.path("longer.npy"), Type::f64, shape, std::as_bytes(std::span(values)));
  EXPECT_EQ(told(folder_.read("longer.npy")),
            "the data file `x: x.npy` is another one: it has 320 bytes and had 304; it is read on after 8 samples");
  // Older checkpoints do not know.
  auto manifest = nlohmann::ordered_json::parse(folder_.read("c/step-2/checkpoint.json"));
  ASSERT_EQ(manifest.erase("data_files"), 1U);
  folder_.write("c/step-2/checkpoint.json", manifest.dump());
  EXPECT_EQ(told(other), "");
}

TEST_F(ResumeTest, ADataFileMayHaveANameOfAnyBytes) {
  fs::copy_file(folder_.path("x.npy"), folder_.path("caf\xe9.npy"));
  const std::string data = " data.x.file=" + folder_.path("caf\xe9.npy");
  EXPECT_EQ(run(1, 1, "c", "train.steps=2" + data).code, 0);
  const Ran on = run(1, 1, "c", "train.steps=3" + data);
  EXPECT_NE(on.out.find("goes on from c/step-2 after step 2\n"), std::string::npos) << on.out << on.failure;
  EXPECT_EQ(on.out.find("data is"), std::string::npos) << on.out;
}

TEST_F(ResumeTest, AShareOfAFileIsToldAsItIsWritten) {
  run(1, 1, "c", "train.steps=2 data.x.to=50% data.x.from=12.50%");
  const Ran on = run(1, 1, "c", "train.steps=3");
  EXPECT_NE(on.out.find("data is `x: x.npy, in order` and was `x: x.npy from 12.5% to 50%, in order`"),
            std::string::npos)
      << on.out << on.failure;
}

TEST_F(ResumeTest, WhatHasChangedSinceIsTold) {
  run(1, 1, "c", "train.steps=2");
  EXPECT_EQ(run(1, 1, "c", "train.steps=2").out.find("changed"), std::string::npos);
  const std::string path = "c/step-2/checkpoint.json";
  auto manifest = nlohmann::ordered_json::parse(folder_.read(path));
  EXPECT_EQ(manifest["data"], "x: x.npy, in order");
  manifest["spec_hash"] = "beef";
  manifest["data"] = "x: y.npy, in order";
  folder_.write(path, manifest.dump());
  const Ran ran = run(1, 1, "c", "train.steps=3 train.shuffle=true");
  EXPECT_NE(ran.out.find("the spec, a size or `log.watch` has changed since: the hash is 0123abcd and was beef\n"
                         "data is `x: x.npy, shuffled` and was `x: y.npy, in order`: it is read on after 8 samples\n"),
            std::string::npos)
      << ran.out << ran.failure;
  // Another layout or mesh has another hash anyway. Older checkpoints do not tell their data.
  manifest["layout"] = "other";
  manifest.erase("data");
  fs::remove_all(folder_.path("c/step-3"));
  folder_.write(path, manifest.dump());
  const Ran silent = run(1, 1, "c", "train.steps=3");
  for (const char* word : {"goes on from c/step-2", "train.steps is"})
    EXPECT_NE(silent.out.find(word), std::string::npos) << silent.out;
  for (const char* word : {"has changed", "data is"}) EXPECT_EQ(silent.out.find(word), std::string::npos) << silent.out;
}

TEST_F(ResumeTest, AnotherLearningRateIsTold) {
  run(1, 1, "c", "train.steps=2 train.lr=0.5");
  const Ran same = run(1, 1, "c", "train.steps=3 train.lr=0.5");
  EXPECT_NE(same.out.find("goes on from c/step-2"), std::string::npos) << same.out << same.failure;
  EXPECT_EQ(same.out.find("learning rate"), std::string::npos) << same.out;
  const Ran other = run(1, 1, "c", "train.steps=4 train.lr=0.25");
  EXPECT_NE(other.out.find("the learning rate, or the peak of its schedule, is 0.25 and was 0.5\n"), std::string::npos)
      << other.out << other.failure;
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

TEST_F(ResumeTest, WhatDoesNotFitIsListedBeforeAnythingChanges) {
  run(1, 1, "c", "train.steps=2");
  const SavedTensors saved = SavedTensors::open(folder_.path("c"));
  std::vector<NamedArray> tensors;
  for (NamedArray tensor : saved.tensors()) {
    if (tensor.name == "row") continue;
    if (tensor.name == "tile") tensor.shape = {5, 7, 3};
    if (tensor.name == "turns") tensor.type = Type::f32;
    if (tensor.name == "copied") tensor.name = "Copied";
    tensors.push_back(tensor);
  }
  Manifest manifest = *saved.manifest();
  write_checkpoint(folder_.path("other"), tensors, {"tile.moment1"}, manifest);
  const std::string from = "train.steps=4 checkpoint.resume=" + folder_.path("other");
  EXPECT_EQ(run(2, 1, "d", from).failure,
            "`other` does not fit the program:\n"
            "  `tile` is [5, 7, 3] in the file and [7, 5, 3] in the program\n"
            "  `turns` is f32 in the file and i32 in the program\n"
            "  `row` is not in the file\n"
            "  `copied` is not in the file\n"
            "  `Copied` is in the file, but not in the program\n"
            "`checkpoint.resume=never` with another `checkpoint.dir` begins anew");
  EXPECT_EQ(run(1, 1, "d", "train.steps=1 checkpoint.resume=" + folder_.path("c")).failure,
            "`c/step-2` is of step 2, but the run ends at step 1\n  --> command line\n1 | train.steps=1\n"
            "  |             ^ more steps, or `checkpoint.resume=never` with another `checkpoint.dir`");
  write_safetensors(folder_.path("plain.safetensors"), tensors);
  EXPECT_NE(run(1, 1, "d", "train.steps=4 checkpoint.resume=" + folder_.path("plain.safetensors"))
                .failure.find("holds tensors, but is not a checkpoint of a run"),
            std::string::npos);
}

// Another optimizer, or replicas that train apart: the parameters are there all the same.
TEST_F(ResumeTest, ParametersOfAnotherOptimizerAreOffered) {
  run(1, 1, "c", "train.steps=2");
  const SavedTensors saved = SavedTensors::open(folder_.path("c"));
  const NamedArray moment = *saved.find("tile.moment1");
  std::vector<NamedArray> parameters;
  for (const NamedArray& tensor : saved.tensors())
    if (tensor.name != moment.name) parameters.push_back(tensor);
  std::vector<std::byte> twice(moment.data.begin(), moment.data.end());
  twice.insert(twice.end(), moment.data.begin(), moment.data.end());
  const auto write = [&](const std::string& name, const std::vector<std::string>& states) {
    std::vector<NamedArray> tensors = parameters;
    std::vector<int64_t> shape = moment.shape;
    if (states.size() > 1) shape.insert(shape.begin(), 2);
    for (const std::string& state : states)
      tensors.push_back(
          {state, moment.type, shape, states.size() > 1 ? std::span<const std::byte>(twice) : moment.data});
    write_checkpoint(folder_.path(name), tensors, states, *saved.manifest());
  };
  write("sgd", {"tile.momentum"});
  const std::string anew =
      " with another `checkpoint.dir` begins with its parameters, and with all else anew\n"
      "`checkpoint.resume=never` with another `checkpoint.dir` begins anew";
  EXPECT_EQ(run(2, 1, "d", "train.steps=4 checkpoint.resume=" + folder_.path("sgd")).failure,
            "`sgd` does not fit the program:\n"
            "  `tile.moment1` is not in the file\n"
            "  `tile.momentum` is in the file, but not in the program\n"
            "`checkpoint.resume=never train.params=sgd`" +
                anew);
  write("apart", {"tile.replica", "tile.replica.moment1"});
  EXPECT_EQ(run(2, 1, "d", "train.steps=4 checkpoint.resume=" + folder_.path("apart")).failure,
            "`apart` does not fit the program: it is of 2 replicas that train apart, the program of one model:\n"
            "  `tile.moment1` is not in the file\n"
            "  `tile.replica` is in the file, but not in the program\n"
            "  `tile.replica.moment1` is in the file, but not in the program\n"
            "`checkpoint.resume=never train.params=apart`" +
                anew);
  const std::string rest = "train.steps=2 checkpoint.resume=never train.params=";
  const Ran from_apart = run(2, 1, "e", rest + folder_.path("apart")),
            from_c = run(1, 1, "f", rest + folder_.path("c"));
  EXPECT_EQ(from_apart.code, 0) << from_apart.failure;
  EXPECT_EQ(from_apart.losses, from_c.losses);
  EXPECT_NE(from_apart.losses, run(1, 1, "g", "train.steps=2").losses);
}

TEST_F(ResumeTest, DamagedNumbersAreNoticed) {
  run(2, 2, "c", "train.steps=2");
  for (const char* name : {"model-00001-of-00001.safetensors", "optimizer-00001-of-00001.safetensors"}) {
    const std::string file = std::string("c/step-2/") + name, good = folder_.read(file);
    std::string bad = good;
    bad[bad.size() - 3] ^= 0x10;
    folder_.write(file, bad);
    for (const int columns : {1, 2, 3}) {
      const Ran ran = run(1, columns, "d", "train.steps=4 checkpoint.resume=" + folder_.path("c"));
      EXPECT_EQ(ran.code, 1);
      EXPECT_TRUE(ran.failure.starts_with("`c/step-2` is damaged: these tensors are not what was written:\n  `"))
          << ran.failure;
      EXPECT_NE(ran.failure.find(name), std::string::npos) << ran.failure;
    }
    folder_.write(file, good);
  }
}

TEST_F(ResumeTest, BeginsFromSeveralFilesAndAsTheSpecSays) {
  run(2, 2, "c", "train.steps=2");
  const SavedTensors saved = SavedTensors::open(folder_.path("c"));
  const auto save = [&](const std::string& file, const std::vector<std::string>& names) {
    std::vector<NamedArray> tensors;
    for (const std::string& name : names) tensors.push_back(*saved.find(name));
    write_safetensors(folder_.path(file), tensors);
    return folder_.path(file);
  };
  std::vector<std::string> parameters;
  for (const NamedArray& tensor : saved.tensors())
    if (!saved.of_optimizer(tensor.name) && tensor.name != "turns") parameters.push_back(tensor.name);
  std::vector<std::string> others = parameters;
  std::erase(others, "scale");
  const std::string all = save("all.safetensors", parameters), base = save("base.safetensors", others),
                    scale = save("scale.safetensors", {"scale"});
  const auto begin = [&](const std::string& name, const std::string& keys) {
    return run(1, 2, name, "train.steps=3 " + keys);
  };
  const Ran whole = begin("whole", "train.params=" + all);
  ASSERT_EQ(whole.code, 0) << whole.failure;
  const Ran parts = begin("parts", "train.params=[" + base + "," + scale + "]");
  EXPECT_EQ(parts.losses, whole.losses) << parts.failure;
  // Fresh, whether the file has it or not; the rest is the file's.
  const Ran without = begin("without", "train.params=" + base + " train.fresh=[scale]");
  EXPECT_TRUE(without.out.starts_with("train.fresh: scale keeps its initial value\n"))
      << without.out << without.failure;
  EXPECT_EQ(begin("in_it", "train.params=" + all + " train.fresh=[scale]").losses, without.losses);
  EXPECT_NE(without.losses, whole.losses);
  EXPECT_EQ(begin("twice", "train.params=[" + all + "," + scale + "]").failure,
            "`scale` is both in `all.safetensors` and in `scale.safetensors`: which is meant? A file without it can be "
            "written by safetensors in Python");
  const std::string refused = begin("none", "train.params=" + base + " train.fresh=[scael]").failure;
  EXPECT_TRUE(
      refused.starts_with("`base.safetensors` does not fit the program:\n  `scael` names no parameter: did you mean "
                          "`scale`?\n  `scale` i"))
      << refused;
}

TEST_F(ResumeTest, BeginsFromParametersOfOtherNames) {
  run(2, 2, "c", "train.steps=2");
  const SavedTensors saved = SavedTensors::open(folder_.path("c"));
  std::vector<NamedArray> tensors;
  for (NamedArray tensor : saved.tensors()) {
    if (saved.of_optimizer(tensor.name) || tensor.name == "turns" || tensor.name == "scale") continue;
    if (tensor.name == "tile") tensor.name = "h.tile.weight";
    tensors.push_back(tensor);
  }
  tensors.push_back({"extra", Type::f32, {0}, {}});
  write_safetensors(folder_.path("theirs.safetensors"), tensors);
  folder_.write("names.yaml", "tile: h.tile.weight\n");
  const std::string from = "train.steps=1 train.params=" + folder_.path("theirs.safetensors");
  EXPECT_EQ(
      run(1, 1, "a", from).failure,
      "`theirs.safetensors` does not fit the program:\n  `tile` is not in the file\n  `scale` is not in the file\n"
      "  `h.tile.weight` is in the file, but not in the program\n  `extra` is in the file, but not in the program\n"
      "`train.fresh` names parameters that begin as the spec says, by paths or patterns");
  const std::string named = from + " checkpoint.resume=never train.names=" + folder_.path("names.yaml");
  EXPECT_EQ(run(1, 2, "a", named).failure,
            "`theirs.safetensors` does not fit the program:\n  `scale` is not in the file\n  `extra` is in the file, "
            "but not in the program\n`train.fresh` names parameters that begin as the spec says, by paths or patterns");
  const Ran partial = run(1, 2, "a", named + " train.partial=true");
  EXPECT_EQ(partial.code, 0) << partial.failure;
  EXPECT_TRUE(partial.out.starts_with(
      "`theirs.safetensors` lacks scale: it keeps its initial value\n`theirs.safetensors` also has extra: left\n"))
      << partial.out;
  folder_.write("names.yaml", "tyle: x\nrow: [1]\nscale: x\n");
  EXPECT_EQ(run(1, 1, "e", named).failure,
            "`row` is called by a list, not by a name\n  --> names.yaml:2:6\n2 | row: [1]\n  |      ^\n"
            "error: `x` is the name of `tyle` already\n  --> names.yaml:3:8\n3 | scale: x\n  |        ^");
  folder_.write("names.yaml", "tyle: x\n");
  EXPECT_NE(
      run(1, 1, "e", named).failure.find("\n  the map names `tyle`, which the program lacks: did you mean `tile`?"),
      std::string::npos);
  // A folder that has both takes the checkpoint: a run that is started again goes on.
  run(1, 1, "b", "train.steps=3 train.params=" + folder_.path("c"));
  EXPECT_NE(run(1, 1, "b", "train.steps=5 train.params=" + folder_.path("c")).out.find("goes on from b/step-3"),
            std::string::npos);
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
