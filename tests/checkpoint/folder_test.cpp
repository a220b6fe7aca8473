// The folder of a run's checkpoints: publishing, the latest, what is kept, what an interrupted run leaves.
#include <algorithm>
#include <fstream>

#include "file_system.h"
#include "meshrt/checkpoint.h"
#include "test_files.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

class FolderTest : public testing::Test {
 protected:
  FolderTest() : checkpoints_(folder_.path("ckpt")) { checkpoints_.make(); }
  ~FolderTest() override { FileSystem::mend(); }

  void write_unfinished(int64_t step, const std::string& text = "{}") const {
    fs::create_directories(checkpoints_.unfinished(step));
    std::ofstream(checkpoints_.unfinished(step) + "/checkpoint.json") << text;
  }
  void publish(int64_t step, const std::string& text = "{}") const {
    write_unfinished(step, text);
    checkpoints_.publish(step);
  }
  /// All of a checkpoint; the seed tells which.
  void write_whole(const std::string& path, int64_t step, uint64_t seed, int64_t order = 0) const {
    Manifest manifest;
    manifest.moment = {.step = step, .seed = seed};
    manifest.order = order;
    const std::byte numbers[16]{};
    const NamedArray tensor{"w", Type::f64, {2}, numbers};
    write_checkpoint(path, {&tensor, 1}, {}, manifest);
  }
  uint64_t seed_of(int64_t step) const {
    return SavedTensors::open(checkpoints_.finished(step)).manifest()->moment.seed;
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path("ckpt"))) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  TestFolder folder_;
  CheckpointFolder checkpoints_;
};

TEST_F(FolderTest, TheLatestIsTheLastPublished) {
  EXPECT_EQ(checkpoints_.latest(), std::nullopt);
  EXPECT_EQ(CheckpointFolder(folder_.path("none")).latest(), std::nullopt);
  publish(9);
  publish(10);
  write_unfinished(11);
  EXPECT_EQ(checkpoints_.latest(), 10);
  EXPECT_EQ(checkpoints_.steps(), (Steps{9, 10}));
  publish(5);  // begun again from an older one
  EXPECT_EQ(checkpoints_.latest(), 5);
  EXPECT_EQ(fs::read_symlink(folder_.path("ckpt/latest")), "step-5");
}

TEST_F(FolderTest, AStepIsReplaced) {
  publish(5, "{1}");
  publish(5, "{2}");
  EXPECT_EQ(folder_.read("ckpt/step-5/checkpoint.json"), "{2}");
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-5"}));
}

// As on NFS.
TEST_F(FolderTest, AStepIsReplacedWhereNamesCannotChangePlaces) {
  FileSystem::instead_of_exchange = [] {};
  publish(5, "{1}");
  publish(5, "{2}");
  EXPECT_EQ(folder_.read("ckpt/step-5/checkpoint.json"), "{2}");
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-5"}));
  // Another run takes the new one away meanwhile: the old one stays.
  FileSystem::instead_of_exchange = [this] { fs::remove_all(checkpoints_.unfinished(5)); };
  EXPECT_EQ(folder_.without_folder(failure_of([this] { publish(5, "{3}"); })),
            "cannot write `ckpt/step-5`: No such file or directory");
  EXPECT_EQ(folder_.read("ckpt/step-5/checkpoint.json"), "{2}");
}

// A run that dies between the two moves of a replacement leaves both under hidden names.
TEST_F(FolderTest, WhatWasBeingReplacedComesBack) {
  write_whole(checkpoints_.unfinished(4), 4, 1);
  checkpoints_.publish(4);
  fs::rename(checkpoints_.finished(4), folder_.path("ckpt/.step-4.beef.removed"));
  write_whole(folder_.path("ckpt/.step-4.beef.unfinished"), 4, 2);
  EXPECT_EQ(checkpoints_.latest(), std::nullopt);
  checkpoints_.recover();
  EXPECT_EQ(checkpoints_.latest(), 4);
  EXPECT_EQ(seed_of(4), 2U) << "the new one";
  checkpoints_.prepare();
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-4"}));

  // The new one is only a part, or of another step by what it says.
  for (const char* harm : {"cut", "renamed"}) {
    fs::rename(checkpoints_.finished(4), folder_.path("ckpt/.step-4.beef.removed"));
    const std::string part = folder_.path("ckpt/.step-4.beef.unfinished");
    write_whole(part, std::string(harm) == "cut" ? 4 : 5, 3);
    if (std::string(harm) == "cut") fs::resize_file(part + "/model-00001-of-00001.safetensors", 9);
    checkpoints_.recover();
    checkpoints_.prepare();
    EXPECT_EQ(checkpoints_.latest(), 4);
    EXPECT_EQ(seed_of(4), 2U) << "the old one";
    EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-4"})) << harm;
  }
}

// After an exchange of names the old one lies where the new one was written.
TEST_F(FolderTest, WhatIsReplacedDoesNotComeBack) {
  write_whole(checkpoints_.finished(4), 4, 2);
  write_whole(folder_.path("ckpt/.step-4.beef.unfinished"), 4, 1);
  checkpoints_.recover();
  checkpoints_.prepare();
  EXPECT_EQ(seed_of(4), 2U);
  EXPECT_EQ(entries(), std::vector<std::string>{"step-4"});
}

// The next step was all written, and was to be published.
TEST_F(FolderTest, WhatWasToBePublishedIs) {
  publish(3);
  write_whole(folder_.path("ckpt/.step-4.beef.unfinished"), 4, 1);
  checkpoints_.recover();
  EXPECT_EQ(checkpoints_.latest(), 4);
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-3", "step-4"}));
}

TEST_F(FolderTest, RunsWriteUnderNamesOfTheirOwn) {
  const CheckpointFolder one(checkpoints_.path(), "beef"), other(checkpoints_.path(), "cafe");
  EXPECT_EQ(folder_.without_folder(one.unfinished(4)), "ckpt/.step-4.beef.unfinished");
  write_whole(one.unfinished(4), 4, 1);
  write_whole(other.unfinished(4), 4, 2);
  one.publish(4);
  EXPECT_EQ(seed_of(4), 1U);
  other.publish(4);
  EXPECT_EQ(seed_of(4), 2U);
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-4"}));
}

TEST_F(FolderTest, WithoutTheLinkTheLastWrittenIsTheLatest) {
  publish(5);
  publish(20);
  const auto written = fs::last_write_time(folder_.path("ckpt/step-20/checkpoint.json"));
  fs::last_write_time(folder_.path("ckpt/step-5/checkpoint.json"), written);  // then the greater step
  fs::remove(folder_.path("ckpt/latest"));
  EXPECT_EQ(checkpoints_.latest(), 20);
  EXPECT_EQ(checkpoints_.lost(), std::nullopt);
  fs::create_symlink("step-7", folder_.path("ckpt/latest"));
  EXPECT_EQ(checkpoints_.latest(), 20);
  EXPECT_EQ(checkpoints_.lost(), 7);
  // Begun again from an older one, and written after it.
  fs::last_write_time(folder_.path("ckpt/step-5/checkpoint.json"), written + std::chrono::seconds(1));
  EXPECT_EQ(checkpoints_.latest(), 5);
  fs::last_write_time(folder_.path("ckpt/step-5/checkpoint.json"), written - std::chrono::seconds(1));
  EXPECT_EQ(checkpoints_.latest(), 20);
  EXPECT_EQ(checkpoints_.incomplete(), Steps{});
  fs::remove_all(folder_.path("ckpt/step-20/checkpoint.json"));
  EXPECT_EQ(checkpoints_.latest(), 5);
  EXPECT_EQ(checkpoints_.incomplete(), Steps{20});
}

TEST_F(FolderTest, TheOrderInTheManifestsOutlivesACopy) {
  fs::create_directories(folder_.path("ckpt"));
  for (const auto& [step, order] : {std::pair{300, 3}, {100, 4}, {200, 5}, {400, 0}}) {
    write_whole(checkpoints_.finished(step), step, 1, order);
    const auto now = fs::last_write_time(checkpoints_.finished(300) + "/checkpoint.json");
    fs::last_write_time(checkpoints_.finished(step) + "/checkpoint.json", now - std::chrono::seconds(order));
  }
  EXPECT_EQ(checkpoints_.latest(), 200);
  EXPECT_EQ(checkpoints_.next_order(), 6);
  fs::create_symlink("step-100", folder_.path("ckpt/latest"));
  EXPECT_EQ(checkpoints_.next_order(), 5);
  EXPECT_EQ(CheckpointFolder(folder_.path("none")).next_order(), 1);
}

TEST_F(FolderTest, KeepsTheNewest) {
  for (const int64_t step : {1, 2, 10, 30}) publish(step);
  checkpoints_.keep(2, 10);  // 30 is of an earlier run that went further
  EXPECT_EQ(checkpoints_.steps(), (Steps{2, 10, 30}));
  checkpoints_.keep(1, 30);
  EXPECT_EQ(checkpoints_.steps(), Steps{30});
  EXPECT_EQ(entries(), (std::vector<std::string>{"latest", "step-30"}));
}

TEST_F(FolderTest, PrepareTakesAwayWhatIsUnfinished) {
  publish(3);
  write_unfinished(4);
  fs::create_directories(folder_.path("ckpt/.step-2.removed"));
  for (const char* link : {"ckpt/.latest.unfinished", "ckpt/.latest.cafe.unfinished"})
    fs::create_symlink("step-3", folder_.path(link));
  for (const char* rest : {"ckpt/.step-4.cafe.unfinished/model", "ckpt/.step-4.beef.unfinished/model",
                           "ckpt/.step-4.beef.removed/model", "ckpt/.shared.beef.unfinished"})
    folder_.write(rest, "");
  // Files of somebody else stay.
  for (const char* mine :
       {"ckpt/notes.txt", "ckpt/.step-x.unfinished", "ckpt/.step-4.notes.unfinished", "ckpt/step-7", "ckpt/.hidden"})
    folder_.write(mine, "");
  checkpoints_.prepare();
  EXPECT_EQ(entries(), (std::vector<std::string>{".hidden", ".step-4.notes.unfinished", ".step-x.unfinished", "latest",
                                                 "notes.txt", "step-3", "step-7"}));
  EXPECT_EQ(checkpoints_.steps(), Steps{3});
  write_unfinished(4);
  checkpoints_.abandon(4);
  EXPECT_FALSE(fs::exists(checkpoints_.unfinished(4)));
}

TEST_F(FolderTest, SaysWhyItCannotWrite) {
  folder_.write("file", "");
  EXPECT_EQ(folder_.without_folder(failure_of([&] { CheckpointFolder(folder_.path("file")).make(); })),
            "cannot write `file`: Not a directory");
  EXPECT_EQ(folder_.without_folder(failure_of([&] { checkpoints_.publish(8); })),
            "`ckpt/.step-8.unfinished` is gone: another run writes into `ckpt`, or it was removed");
}

}  // namespace
}  // namespace meshrt
