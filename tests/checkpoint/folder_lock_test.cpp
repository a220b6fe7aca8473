// The lock of a folder, and file systems that have none.
#include "system/folder_lock.h"

#include <unistd.h>

#include <cerrno>

#include "file_system.h"
#include "system/host_name.h"
#include "test_files.h"

namespace meshrt {
namespace {

class FolderLockTest : public testing::Test {
 protected:
  ~FolderLockTest() override { FileSystem::mend(); }
  FolderLock lock() const { return {folder_.path(""), "c", "name another"}; }

  TestFolder folder_;
};

TEST_F(FolderLockTest, KeepsASecondRunOutWhileItLives) {
  {
    const FolderLock first = lock();
    EXPECT_EQ(first.problem(), "");
    EXPECT_TRUE(FileSystem::lock_reaches_server);
    const std::string said = failure_of([this] { lock(); });
    EXPECT_EQ(said, "another run (process " + std::to_string(getpid()) + " on " + host_name() +
                        ") writes into `c`: wait for its end, or name another");
  }
  EXPECT_EQ(lock().problem(), "");
}

TEST_F(FolderLockTest, WhatOthersHaveWrittenIntoTheFileIsNotTold) {
  const FolderLock first = lock();
  for (const std::string& text : {std::string(), std::string("\x1b[31mred"), std::string("two\nlines")}) {
    folder_.write(lock_name, text);
    EXPECT_EQ(failure_of([this] { lock(); }), "another run writes into `c`: wait for its end, or name another");
  }
}

TEST_F(FolderLockTest, WithoutLocksNobodyIsKeptOutAndThatIsTold) {
  FileSystem::lock_error = ENOLCK;
  const FolderLock first = lock(), second = lock();
  EXPECT_EQ(second.problem(),
            "`c` cannot be locked (No locks available): nothing keeps a second run from writing into it");
  EXPECT_EQ(FolderLock(folder_.path("none"), "none", "").problem(),
            "`none` cannot be locked (No such file or directory): nothing keeps a second run from writing into it");
}

}  // namespace
}  // namespace meshrt
