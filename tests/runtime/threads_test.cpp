// The threads of a rank: every piece once, by whichever thread; failures; what is cut within a piece.
#include "meshrt/threads.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "meshrt/failure.h"
#include "meshrt/lookup.h"

namespace meshrt::test {
namespace {

TEST(Threads, DoEveryPieceOnce) {
  Threads threads(4);
  EXPECT_EQ(threads.count(), 4);
  for (const int64_t pieces : {0, 1, 2, 3, 4, 5, 100, 10'000}) {
    std::vector<std::atomic<int>> done(static_cast<size_t>(pieces));
    threads.run(pieces, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
    for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(Threads, AreThoseOfTheThreadThatHasThem) {
  EXPECT_EQ(Threads::mine(), nullptr);
  {
    Threads threads(2);
    EXPECT_EQ(Threads::mine(), &threads);
    std::thread([] { EXPECT_EQ(Threads::mine(), nullptr); }).join();
  }
  EXPECT_EQ(Threads::mine(), nullptr);
}

TEST(Threads, WorkAtTheSameTime) {
  Threads threads(3);
  std::atomic<int> arrived = 0;
  threads.run(3, [&](int64_t) {  // ends only if three threads are in it
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 3);
}

TEST(Threads, BeginWithTheSamePiecesInEveryCall) {
  constexpr int64_t count = 3;
  Threads threads(count);
  std::array<std::thread::id, count> first;
  for (int round = 0; round < 100; ++round) {
    std::array<std::thread::id, count> by;
    std::atomic<int64_t> arrived = 0;
    threads.run(count, [&](int64_t i) {  // nobody is free to take the piece of another one
      by[static_cast<size_t>(i)] = std::this_thread::get_id();
      ++arrived;
      while (arrived < count) std::this_thread::yield();
    });
    if (round == 0) first = by;
    EXPECT_EQ(by, first);
  }
  EXPECT_EQ(first[0], std::this_thread::get_id());
}

TEST(Threads, ThrowWhatAPieceThrowsAndGoOn) {
  Threads threads(3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(threads.run(10,
                             [](int64_t i) {
                               if (i == 7) throw std::runtime_error("seven");
                             }),
                 std::runtime_error);
    std::atomic<int> done = 0;
    threads.run(10, [&](int64_t) { ++done; });
    EXPECT_EQ(done, 10);
  }
}

TEST(Share, GivesStretchesThatMakeUpTheWhole) {
  Threads threads(3);
  for (const int64_t extent : {0, 1, 7, 64, 1'000}) {
    for (const int64_t least : {1, 10, 500, 5'000}) {
      std::mutex mutex;
      std::vector<int> times(static_cast<size_t>(extent));
      int64_t shortest = extent;
      share(extent, least, [&](int64_t begin, int64_t end) {
        const std::lock_guard lock(mutex);
        shortest = std::min(shortest, end - begin);
        for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
      });
      EXPECT_THAT(times, testing::Each(1));
      EXPECT_GE(shortest, std::min(extent, least));
    }
  }
}

TEST(Share, IsDoneAloneWithinAPiece) {
  Threads threads(4);
  std::atomic<int> calls = 0;
  share(4, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      share(100, 1, [&](int64_t from, int64_t to) {
        EXPECT_EQ(from, 0);
        EXPECT_EQ(to, 100);
        ++calls;
      });
  });
  EXPECT_EQ(calls, 4);
}

TEST(ShareEach, GivesStretchesWithinEachLine) {
  Threads threads(3);
  for (const int64_t outer : {0, 1, 5})
    for (const int64_t inner : {0, 1, 100}) {
      std::mutex mutex;
      std::vector<int> times(static_cast<size_t>(outer * inner));
      share_each(outer, inner, 7, [&](int64_t o, int64_t begin, int64_t end) {
        const std::lock_guard lock(mutex);
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(o * inner + i)];
      });
      EXPECT_THAT(times, testing::Each(1));
    }
}

TEST(ShareRows, HasEveryRowOnce) {
  Threads threads(4);
  std::mutex mutex;
  std::vector<int> times(1'001);
  int pieces = 0;
  share_rows(1, 5'000, 1'000, [&](int64_t, const OwnRows& own) {
    const std::lock_guard lock(mutex);
    for (int64_t row = 0; row < 1'001; ++row) times[static_cast<size_t>(row)] += own.has(row) ? 1 : 0;
    ++pieces;
  });
  EXPECT_THAT(times, testing::Each(1));
  EXPECT_EQ(pieces, 16);
}

TEST(ShareRows, LeavesTinyWorkToOneThread) {
  Threads threads(4);
  int pieces = 0;
  share_rows(1, 1'000, 64, [&](int64_t, const OwnRows&) { ++pieces; });
  EXPECT_EQ(pieces, 1);
}

TEST(Fill, WritesAll) {
  Threads threads(3);
  for (const int64_t count : {0, 1, 300'001}) {
    std::vector<float> all(static_cast<size_t>(count));
    fill(all.data(), count, 2.5F);
    EXPECT_THAT(all, testing::Each(2.5F));
  }
}

TEST(ThreadsOfRank, AreReadFromTheEnvironment) {
  unsetenv("MESHRT_THREADS");
  EXPECT_EQ(threads_of_rank(), 1);
  setenv("MESHRT_THREADS", "12", 1);
  EXPECT_EQ(threads_of_rank(), 12);
  for (const char* bad : {"0", "-1", "two", "2x", "1025", "99999999999999999999"}) {
    setenv("MESHRT_THREADS", bad, 1);
    EXPECT_THROW(threads_of_rank(), Failure) << bad;
  }
  unsetenv("MESHRT_THREADS");
}

}  // namespace
}  // namespace meshrt::test
