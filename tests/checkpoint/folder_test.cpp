// The folder of a run's checkpoints: publishing, the latest, what is kept, what an interrupted run leaves.
#include <algorithm>
#include <fstream>

#include "meshrt/checkpoint.h"
#include "test_files.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

class FolderTest : public testing::Test {
 protected:
  FolderTest() : checkpoints_(folder_.path("ckpt")) { checkpoints_.make(); }

  void write_unfinished(int64_t step, const std::string& text = "{}") const {
    fs::create_directories(checkpoints_.unfinished(step));
    std::ofstream(checkpoints_.unfinished(step) + "/checkpoint.json") << text;
  }
  void publish(int64_t step, const std::string& text = "{}") const {
    write_unfinished(step, text);
    checkpoints_.publish(step);
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
  fs::create_symlink("step-3", folder_.path("ckpt/.latest.unfinished"));
  // Files of somebody else stay.
  for (const char* mine : {"ckpt/notes.txt", "ckpt/.step-x.unfinished", "ckpt/step-7", "ckpt/.hidden"})
    folder_.write(mine, "");
  checkpoints_.prepare();
  EXPECT_EQ(entries(),
            (std::vector<std::string>{".hidden", ".step-x.unfinished", "latest", "notes.txt", "step-3", "step-7"}));
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
            "cannot write `ckpt/.step-8.unfinished`: No such file or directory");
}

}  // namespace
}  // namespace meshrt
