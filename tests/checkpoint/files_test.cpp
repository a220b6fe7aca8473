// Checkpoints as files: what is written, what is read of other origins, and every kind of damage.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "meshrt/checkpoint.h"
#include "meshrt/rename_map.h"
#include "test_files.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<float>(i) * 0.5F;
    const auto bytes = std::as_bytes(std::span(numbers_));
    tensors_ = {{"flag", Type::u8, {4}, bytes.first(4)},
                {"w", Type::f32, {3, 4}, bytes.first(48)},
                {"w.moment1", Type::f32, {3, 4}, bytes.subspan(48, 48)},
                {"v", Type::f32, {6}, bytes.subspan(96, 24)},
                {"none", Type::f32, {0, 2}, {}}};
    manifest_.moment = {12, 3400, 7};
    manifest_.program = "Gpt";
    manifest_.spec = "gpt.mesh";
    manifest_.spec_hash = "abcd";
    manifest_.layout = "default";
    manifest_.precision = "f32";
    manifest_.mesh = {{"data", 2}, {"model", 3}};
    write_checkpoint(folder_.path("c"), tensors_, {"w.moment1"}, manifest_, 64);
  }
  std::string error(const std::string& name = "c") const {
    return folder_.without_folder(failure_of([&] { SavedTensors::open(folder_.path(name)); }));
  }
  /// The failure after `change` on a fresh copy of the checkpoint.
  template <class Change>
  std::string error_after(Change change) const {
    fs::remove_all(folder_.path("d"));
    fs::copy(folder_.path("c"), folder_.path("d"));
    change(folder_.path("d/"));
    return error("d");
  }

  TestFolder folder_;
  std::vector<float> numbers_ = std::vector<float>(32);
  std::vector<NamedArray> tensors_;
  Manifest manifest_;
};

TEST_F(FilesTest, AFullDiskLeavesNothing) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);  // files above a limit fail like on a full disk
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string failure = failure_of([&] { write_checkpoint(folder_.path("full"), tensors_, {}, manifest_); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(folder_.without_folder(failure), "cannot write `full/model-00001-of-00001.safetensors`: File too large");
  EXPECT_FALSE(fs::exists(folder_.path("full")));
}

TEST_F(FilesTest, NamesThatDoNotFitAreRefused) {
  Manifest manifest = manifest_;
  manifest.dims = {{"w", {"layer", "embed"}}, {"v", {"vocab"}}};
  write_checkpoint(folder_.path("named"), tensors_, {"w.moment1"}, manifest);
  const SavedTensors saved = SavedTensors::open(folder_.path("named"));
  EXPECT_EQ(saved.manifest()->dims, manifest.dims);
  const auto error_of = [&](const std::string& map) {
    return folder_.without_folder(
        failure_of([&] { check_names(RenameMap::read(folder_.write("names.yaml", map)), saved); }));
  };
  check_names(RenameMap::read(folder_.write("good.yaml", "w: h.{layer}.w\nv: x\n")), saved);
  const std::string head = "the map of names does not fit `named`:\n  ";
  EXPECT_EQ(error_of("w: v\n"), head + "`w` and `v` would both be `v`");
  EXPECT_EQ(error_of("w: x.{layer}\nv: x.1\n"), head + "`w` and `v` would both be `x.1`");
  EXPECT_EQ(error_of("vv: x\n"), head + "the map names `vv`, which is not there: did you mean `v`?");
  EXPECT_EQ(error_of("out: x\nkey: y\nvv: z\n"),
            head +
                "the map names `key`, which is not there\n  the map names `out`, which is not there\n  the map names "
                "`vv`, which is not there: did you mean `v`?\n  known tensors: w, v, none, flag, w.moment1");
  EXPECT_EQ(error_of("large: w\nv: x\n"),
            head +
                "the map names `large`, which is not there\n  known tensors: w, v, none, flag, w.moment1\n  a map "
                "`ours: theirs` "
                "gives the names on its right to tensors that have those on its left, and some here have\n  those "
                "on its right: with `--params` or `train.params` such a file is read as it is, by `--names` or "
                "`train.names`");
  EXPECT_EQ(error_of("v: '{layer}.x'\n"), head + "`v`: the map gives it the dims layer, ..., it has vocab");
}

TEST_F(FilesTest, ComeBack) {
  const SavedTensors saved = SavedTensors::open(folder_.path("c"));
  ASSERT_TRUE(saved.manifest());
  const Manifest& manifest = *saved.manifest();
  EXPECT_EQ(manifest.moment.step, 12);
  EXPECT_EQ(manifest.moment.position, 3400);
  EXPECT_EQ(manifest.moment.seed, 7U);
  EXPECT_EQ(manifest.program, "Gpt");
  EXPECT_EQ(manifest.spec, "gpt.mesh");
  EXPECT_EQ(manifest.spec_hash, "abcd");
  EXPECT_EQ(manifest.layout, "default");
  EXPECT_EQ(manifest.precision, "f32");
  EXPECT_EQ(manifest.mesh, manifest_.mesh);
  ASSERT_EQ(saved.tensors().size(), tensors_.size());
  for (const NamedArray& tensor : tensors_) {
    const NamedArray* found = saved.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(found->data, tensor.data)) << tensor.name;
  }
  EXPECT_EQ(saved.find("w.moment"), nullptr);
  EXPECT_TRUE(saved.of_optimizer("w.moment1"));
  EXPECT_FALSE(saved.of_optimizer("w"));
  EXPECT_EQ(saved.bytes(), 4 + 48 + 48 + 24);
  EXPECT_EQ(damaged_tensors(saved), Names{});
}

TEST_F(FilesTest, AreSplitAndIndexedAsHuggingFaceDoes) {
  // 64 bytes a file: flag and w; v and none.
  const auto index = nlohmann::json::parse(folder_.read("c/model.safetensors.index.json"));
  EXPECT_EQ(index, nlohmann::json::parse(R"({"metadata": {"total_size": 76}, "weight_map": {
    "flag": "model-00001-of-00002.safetensors", "w": "model-00001-of-00002.safetensors",
    "v": "model-00002-of-00002.safetensors", "none": "model-00002-of-00002.safetensors"}})"));
  const Safetensors first = Safetensors::open(folder_.path("c/model-00001-of-00002.safetensors"));
  EXPECT_EQ(first.tensors()[0].name, "w");  // wide numbers first: all lie at multiples of their size
  EXPECT_EQ(first.metadata().at("format"), "pt");
  EXPECT_TRUE(fs::exists(folder_.path("c/optimizer-00001-of-00001.safetensors")));
  EXPECT_EQ(failure_of([&] { write_checkpoint(folder_.path("c"), tensors_, {}, manifest_); }),
            "cannot write `" + folder_.path("c") + "`: it is there already");
}

TEST_F(FilesTest, OfOtherOriginsAreRead) {
  fs::remove(folder_.path("c/checkpoint.json"));
  const SavedTensors indexed = SavedTensors::open(folder_.path("c"));
  EXPECT_FALSE(indexed.manifest());
  EXPECT_EQ(indexed.tensors().size(), 5U);
  const SavedTensors one = SavedTensors::open(folder_.path("c/model-00002-of-00002.safetensors"));
  EXPECT_EQ(one.tensors().size(), 2U);
  EXPECT_EQ(one.file_of("v"), "model-00002-of-00002.safetensors");
  fs::create_directory(folder_.path("hub"));
  write_safetensors(folder_.path("hub/model.safetensors"), tensors_);
  EXPECT_EQ(SavedTensors::open(folder_.path("hub")).tensors().size(), 5U);
  EXPECT_EQ(damaged_tensors(indexed), Names{});
}

TEST_F(FilesTest, AFolderOfCheckpointsMeansItsLatest) {
  fs::create_directory(folder_.path("run"));
  fs::rename(folder_.path("c"), folder_.path("run/step-12"));
  EXPECT_EQ(folder_.without_folder(SavedTensors::open(folder_.path("run")).path()), "run/step-12");
}

TEST_F(FilesTest, DamageIsNamed) {
  const auto edit = [](const std::string& from, const std::string& to) {
    return [=](const std::string& folder) {
      std::ifstream file(folder + "checkpoint.json");
      std::string text{std::istreambuf_iterator<char>(file), {}};
      ASSERT_NE(text.find(from), std::string::npos) << from;
      std::ofstream(folder + "checkpoint.json") << text.replace(text.find(from), from.size(), to);
    };
  };
  const std::string damaged = "`d/checkpoint.json` is damaged: ";
  EXPECT_EQ(error_after([](const std::string& d) { fs::remove(d + "optimizer-00001-of-00001.safetensors"); }),
            "cannot read `d/optimizer-00001-of-00001.safetensors`: No such file or directory");
  EXPECT_EQ(error_after([](const std::string& d) { fs::resize_file(d + "model-00001-of-00002.safetensors", 100); }),
            "`d/model-00001-of-00002.safetensors` is damaged: it has 100 bytes, checkpoint.json says 212");
  EXPECT_EQ(error_after([](const std::string& d) { fs::remove(d + "optimizer.safetensors.index.json"); }),
            "`d` is damaged: `w.moment1` is in checkpoint.json, but in no file");
  EXPECT_EQ(error_after([](const std::string& d) { std::ofstream(d + "checkpoint.json") << "{"; }),
            damaged + "it is not JSON");
  EXPECT_EQ(error_after([](const std::string& d) { std::ofstream(d + "checkpoint.json") << "[1]"; }),
            damaged + "it has no `format`");
  EXPECT_EQ(error_after(edit("meshwright", "other")), damaged + "its `format` is of something else");
  EXPECT_EQ(error_after(edit("\"version\": 1", "\"version\": 2")),
            "`d/checkpoint.json` has version 2, this program reads version 1");
  EXPECT_EQ(error_after(edit("\"step\": 12", "\"step\": -12")), damaged + "`step` is not a whole number");
  EXPECT_EQ(error_after(edit("\"Gpt\"", "3")), damaged + "`program` is not a text");
  const auto add = [&](const std::string& entry) { return error_after(edit("\"version\"", entry + ", \"version\"")); };
  EXPECT_EQ(add(R"("job": {"slurm": 4})"), damaged + "`job.slurm` is not a text");
  EXPECT_EQ(add(R"("job": "4")"), damaged + "`job` is not a map");
  EXPECT_EQ(add(R"("data": 4)"), damaged + "`data` is not a text");
  EXPECT_EQ(add(R"("dims": {"w": "layer"})"), damaged + "the dims of `w` are not a list");
  EXPECT_EQ(add(R"("dims": {"w": [4]})"), damaged + "`dims.w` is not a text");
  EXPECT_EQ(error_after(edit("\"w\": \"", "\"w\": \"x")), damaged + "the hash of `w` is not one");
  EXPECT_EQ(error_after(edit("\"w\": ", "\"q\": ")), "`d` is damaged: `q` is in checkpoint.json, but in no file");
  EXPECT_EQ(error_after(edit("optimizer-00001-of-00001.safetensors", "other.safetensors")),
            "`d` is damaged: checkpoint.json does not know optimizer-00001-of-00001.safetensors");
  EXPECT_EQ(error_after(edit("optimizer-00001-of-00001.safetensors", "../x")),
            damaged + "`../x` is not the name of a file in its folder");
  EXPECT_EQ(error_after([](const std::string& d) { std::ofstream(d + "model.safetensors.index.json") << "{}"; }),
            "`d/model.safetensors.index.json` is damaged: it has no `weight_map`");
  EXPECT_EQ(error_after([](const std::string& d) {
              std::ofstream(d + "model.safetensors.index.json") << R"({"weight_map": {"w": "../x"}})";
            }),
            "`d/model.safetensors.index.json` is damaged: an entry of its `weight_map` is not the name of a file in "
            "its folder");
  fs::create_directory(folder_.path("empty"));
  EXPECT_EQ(error("empty"),
            "`empty` holds neither a checkpoint nor `model.safetensors.index.json` nor `model.safetensors`");
  EXPECT_EQ(error("nowhere"), "cannot read `nowhere`: No such file or directory");
  EXPECT_EQ(error("c/checkpoint.json"),
            "`c/checkpoint.json` is not a valid safetensors file: its header would have 8245921739492559483 bytes, but "
            "the file has " +
                std::to_string(fs::file_size(folder_.path("c/checkpoint.json"))));
}

// Any byte of any file changed: an error when it is opened, a damaged tensor, or at least other metadata; never a
// crash, never numbers that pass for good.
TEST_F(FilesTest, AChangedByteIsNoticed) {
  std::mt19937 random(1);
  int noticed = 0, harmless = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path("c"))) {
    const std::string name = entry.path().filename();
    const std::string good = folder_.read("c/" + name);
    for (int i = 0; i < 150; ++i) {
      std::string bad = good;
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
      folder_.write("c/" + name, bad);
      try {
        const SavedTensors saved = SavedTensors::open(folder_.path("c"));
        bool same = damaged_tensors(saved).empty();
        for (const NamedArray& tensor : tensors_)
          EXPECT_TRUE(!same || std::ranges::equal(saved.find(tensor.name)->data, tensor.data)) << name;
        ++(same ? harmless : noticed);
      } catch (const Failure&) {
        ++noticed;
      }
    }
    folder_.write("c/" + name, good);
  }
  EXPECT_GT(noticed, 500);
  EXPECT_GT(harmless, 10);  // white space, a name of the run that wrote it
}

}  // namespace
}  // namespace meshrt
