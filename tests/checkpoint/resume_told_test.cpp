// What a run tells that goes on: what is otherwise than before, and why it does not begin.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "file_system.h"
#include "meshrt/npy.h"
#include "resumed.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;

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

TEST_F(ResumeTest, AnotherPrecisionIsTold) {
  run(1, 1, "c", "train.steps=2");
  const auto told = [&](const char* was) {
    auto manifest = nlohmann::ordered_json::parse(folder_.read("c/step-2/checkpoint.json"));
    manifest["precision"] = was;
    folder_.write("c/step-2/checkpoint.json", manifest.dump());
    fs::remove_all(folder_.path("c/step-3"));
    return run(1, 1, "c", "train.steps=3").out;
  };
  EXPECT_NE(told("mixed").find("the precision is f64 and was mixed\n"), std::string::npos);
  EXPECT_EQ(told("f64").find("precision"), std::string::npos);
}

/// What a run tells of its optimizer that goes on from `c/step-2`.
class OptimizerTold : public ResumeTest {
 protected:
  std::string told(const std::string& optimizer, const std::map<std::string, double>& settings) {
    optimizer_ = optimizer;
    settings_.assign(settings.begin(), settings.end());
    fs::remove_all(folder_.path("c/step-3"));
    const Ran ran = run(1, 1, "c", "train.steps=3");
    EXPECT_EQ(ran.code, 0) << ran.failure;
    std::istringstream lines(ran.out);
    std::string text;
    for (std::string line; std::getline(lines, line);)
      if (line.find("optimizer") != std::string::npos) text += line + "\n";
    return text;
  }
};

TEST_F(OptimizerTold, AnotherOptimizerOrSettingIsTold) {
  optimizer_ = "adamw";
  settings_ = {{"beta1", 0.9}, {"beta2", 0.999}, {"clip", 1}, {"weight_decay", 0.01}};
  run(1, 1, "c", "train.steps=2");
  EXPECT_EQ(told("adamw", {{"beta1", 0.9}, {"beta2", 0.999}, {"clip", 1}, {"weight_decay", 0.01}}), "");
  EXPECT_EQ(told("adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"clip", 1}, {"weight_decay", 0.1}}),
            "the optimizer's beta2 is 0.95 and was 0.999\nthe optimizer's weight_decay is 0.1 and was 0.01\n");
  EXPECT_EQ(told("adamw", {{"beta1", 0.9}, {"beta2", 0.999}, {"weight_decay", 0.01}}),
            "the optimizer's clip is none and was 1\n");
  EXPECT_EQ(told("lion", {{"beta1", 0.8}, {"clip", 1}, {"new", 1}}),
            "the optimizer is lion and was adamw\nthe optimizer's beta1 is 0.8 and was 0.9\n");
  // Older checkpoints do not know.
  auto manifest = nlohmann::ordered_json::parse(folder_.read("c/step-2/checkpoint.json"));
  ASSERT_EQ(manifest.erase("optimizer") + manifest.erase("settings"), 2U);
  folder_.write("c/step-2/checkpoint.json", manifest.dump());
  EXPECT_EQ(told("lion", {{"beta1", 0.8}}), "");
}

TEST_F(OptimizerTold, AnotherScheduleIsToldByItsSettings) {
  optimizer_ = "sgd";
  settings_ = {{"momentum", 0.9}, {"lr.cosine.warmup", 10}, {"lr.cosine.steps", 0}, {"lr.constant.rate", 0.5}};
  run(1, 1, "c", "train.steps=2");
  const std::map<std::string, double> before(settings_.begin(), settings_.end());
  EXPECT_EQ(told("sgd", before), "");
  std::map<std::string, double> now = before;
  now["lr.cosine.warmup"] = 20;
  EXPECT_EQ(told("sgd", now), "the optimizer's lr.cosine.warmup is 20 and was 10\n");
  EXPECT_EQ(told("sgd", {{"momentum", 0.9}, {"lr.linear.warmup", 20}}),
            "the optimizer's lr is linear and was constant * cosine\n");
  EXPECT_EQ(told("lion", now),
            "the optimizer is lion and was sgd\nthe optimizer's lr.cosine.warmup is 20 and was 10\n");
}

TEST_F(OptimizerTold, SettingsThatParametersHaveOfTheirOwnAreTold) {
  optimizer_ = "sgd";
  settings_ = {{"momentum", 0.9},        {"weight_decay", 0.1},   {"lr.constant.warmup", 0}, {"a:weight_decay", 0},
               {"b.lr:weight_decay", 0}, {"c:weight_decay", 0.2}, {"c:lr.constant.rate", 1}};
  run(1, 1, "c", "train.steps=2");
  const std::map<std::string, double> before(settings_.begin(), settings_.end());
  EXPECT_EQ(told("sgd", before), "");
  std::map<std::string, double> now = before;
  now["a:weight_decay"] = now["b.lr:weight_decay"] = 0.3;
  now["c:lr.constant.rate"] = 2;
  EXPECT_EQ(told("sgd", now),
            "the optimizer's lr.constant.rate of c is 2 and was 1\n"
            "the optimizer's weight_decay of a, b.lr is 0.3 and was 0\n");
  // What a parameter has no more of its own is that of all.
  EXPECT_EQ(told("sgd", {{"momentum", 0.9}, {"weight_decay", 0.2}, {"lr.constant.warmup", 0}}),
            "the optimizer's lr of c is that of all and was constant\n"
            "the optimizer's weight_decay of a, b.lr is 0.2 and was 0\n"
            "the optimizer's weight_decay is 0.2 and was 0.1\n");
  now = before;
  for (const char* path : {"d", "e", "f", "g", "h"}) now[std::string(path) + ":momentum"] = 0;
  EXPECT_EQ(told("sgd", now), "the optimizer's momentum of d, e, f and 2 more is 0 and was 0.9\n");
}

TEST_F(OptimizerTold, WhatIsTrainedIsTold) {
  optimizer_ = "sgd";
  settings_ = {{"frozen", 0}, {"lr.constant.warmup", 0}, {"a:frozen", 1}, {"b:weight_decay", 0}, {"weight_decay", 0.1}};
  run(1, 1, "c", "train.steps=2");
  EXPECT_EQ(
      told("sgd", {{"frozen", 0}, {"lr.constant.warmup", 0}, {"b:frozen", 1}, {"c:frozen", 1}, {"weight_decay", 0.1}}),
      "the optimizer trains a and did not\nthe optimizer no longer trains b, c\n");
  // A checkpoint that does not know what was frozen.
  auto manifest = nlohmann::ordered_json::parse(folder_.read("c/step-2/checkpoint.json"));
  ASSERT_EQ(manifest["settings"].erase("frozen") + manifest["settings"].erase("a:frozen"), 2U);
  folder_.write("c/step-2/checkpoint.json", manifest.dump());
  EXPECT_EQ(told("sgd", {{"frozen", 0}, {"lr.constant.warmup", 0}, {"b:frozen", 1}, {"weight_decay", 0.1}}), "");
}

TEST_F(OptimizerTold, HowReplicasTrainApartIsTold) {
  optimizer_ = "sgd";
  settings_ = {{"lr.constant.warmup", 0}, {"sync", 500}, {"outer.lr", 0.7}, {"outer.nesterov", 1}};
  run(1, 1, "c", "train.steps=2");
  EXPECT_EQ(told("sgd", {{"lr.constant.warmup", 0}, {"sync", 100}, {"outer.lr", 0.7}, {"outer.nesterov", 0}}),
            "the optimizer's outer.nesterov is 0 and was 1\nthe optimizer's sync is 100 and was 500\n");
  EXPECT_EQ(told("sgd", {{"lr.constant.warmup", 0}}), "");
}

// A checkpoint that has no settings of rates knows none of parameters either.
TEST_F(OptimizerTold, AnOlderCheckpointTellsOfNoParameter) {
  optimizer_ = "sgd";
  settings_ = {{"momentum", 0.9}};
  run(1, 1, "c", "train.steps=2");
  EXPECT_EQ(told("sgd", {{"momentum", 0.8}, {"lr.cosine.warmup", 10}, {"a:momentum", 0}}),
            "the optimizer's momentum is 0.8 and was 0.9\n");
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

}  // namespace
}  // namespace meshrt
