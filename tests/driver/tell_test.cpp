#include "system/tell.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "test_files.h"

namespace meshrt {
namespace {

TEST(TellTest, AResultThatCannotBeWrittenIsAnError) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  tell_on(full, "loss {}\n", 2);
  EXPECT_EQ(failure_of([&] { require_written(full); }), "cannot write to standard output: No space left on device");
  std::fclose(full);
  std::FILE* const file = std::tmpfile();
  tell_on(file, "loss {}\n", 2);
  EXPECT_NO_THROW(require_written(file));
  std::fclose(file);
}

TEST(TellTest, AReaderMayEndEarly) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  close(ends[0]);
  std::FILE* const closed = fdopen(ends[1], "w");
  tell_on(closed, "loss {}\n", 2);
  EXPECT_NO_THROW(require_written(closed));
  std::fclose(closed);
  std::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace meshrt
