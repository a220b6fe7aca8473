// Folders of checkpoints that all ranks share, and those that every host has for itself.
#include "checkpoint/shared_folder.h"

#include <chrono>
#include <thread>

#include "meshrt/launch.h"
#include "test_files.h"
#include "transport/transport.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class SharedFolderTest : public testing::Test {
 protected:
  SharedFolderTest() {
    for (const char* name : {"one", "other"}) fs::create_directory(folder_.path(name));
  }
  /// What is said where four ranks, two on each of the hosts a and b, look at folders of these names.
  std::string told(const std::array<std::string, 4>& names, std::chrono::milliseconds patience) const {
    std::string failure;
    launch_threads(4, [&](Rank& rank) {
      rank.transport().set_placement({{0, 0, 1, 1}, {"a", "b"}, ""});
      try {
        require_shared_folder(rank, CheckpointFolder(folder_.path(names[rank.rank()]), "beef"), patience);
      } catch (const Failure& told) {
        EXPECT_EQ(rank.rank(), 0);
        EXPECT_EQ(told.cause, Cause::environment);
        failure = folder_.without_folder(told.what());
      }
      return 0;
    });
    return failure;
  }

  TestFolder folder_;
};

TEST_F(SharedFolderTest, OneOfAllRanksIsLeftAsItWas) {
  EXPECT_EQ(told({"one", "one", "one", "one"}, 10s), "");
  EXPECT_TRUE(fs::is_empty(folder_.path("one")));
}

TEST_F(SharedFolderTest, OneOfAHostAloneIsRefused) {
  const std::string head = "`one` is not the same folder for all ranks: what rank 0 on a writes there is not seen by ";
  const std::string way_out =
      "\n`checkpoint.dir` has to name a folder that all hosts share, by its absolute path if ranks start in different "
      "folders";
  EXPECT_EQ(told({"one", "one", "other", "other"}, 0ms), head + "ranks 2, 3 on b" + way_out);
  EXPECT_EQ(told({"one", "other", "one", "nowhere"}, 100ms), head + "rank 1 on a, rank 3 on b" + way_out);
  for (const char* name : {"one", "other"}) EXPECT_TRUE(fs::is_empty(folder_.path(name)));
  EXPECT_FALSE(fs::exists(folder_.path("nowhere")));
}

// Runs that no lock keeps apart take away what the others have not finished.
TEST_F(SharedFolderTest, AnotherRunThatBeginsAtOnceIsTold) {
  std::string failure;
  launch_threads(2, [&](Rank& rank) {
    const CheckpointFolder one(folder_.path("one"), "beef"), other(folder_.path("one"), "cafe");
    if (rank.rank() == 1) {
      while (!fs::exists(one.mark())) std::this_thread::yield();
      other.prepare();
    }
    try {
      require_shared_folder(rank, one, 0ms);
    } catch (const Failure& told) {
      failure = folder_.without_folder(told.what());
    }
    return 0;
  });
  EXPECT_EQ(failure,
            "`one/.shared.beef.unfinished` is gone: another run has begun in `one`: wait for its end, or name another "
            "folder with `checkpoint.dir`");
}

// As over NFS, where a host sees a little later what another one has made.
TEST_F(SharedFolderTest, OneThatAppearsLateIsWaitedFor) {
  const std::jthread late([this] {
    std::this_thread::sleep_for(200ms);
    fs::create_directory_symlink("one", folder_.path("late"));
  });
  EXPECT_EQ(told({"one", "one", "late", "late"}, 30s), "");
}

}  // namespace
}  // namespace meshrt
