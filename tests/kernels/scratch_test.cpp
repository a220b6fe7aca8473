// What a thread's scratch keeps of the machine's memory.
#include "kernels/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "meshrt/rank_memory.h"
#include "report/memory_use.h"

namespace meshrt {
namespace {

constexpr int64_t slack = 256 << 10;  // what the process may take beside, to read of itself too

int64_t own_bytes() { return memory_use().own; }

void* filled(Scratch& scratch, int place, size_t size) {
  void* const at = scratch.bytes(place, size);
  std::memset(at, 1, size);
  return at;
}

class ScratchMemory : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the address sanitizer takes memory of its own";
#endif
  }
};

TEST_F(ScratchMemory, KeepsWhatWasAskedForAndNoMore) {
  for (const size_t size : {size_t{5000}, huge_page / 2, huge_page, huge_page + 8192, 3 * huge_page + 100}) {
    const int64_t before = own_bytes();
    Scratch scratch;
    filled(scratch, 0, size);
    EXPECT_NEAR(static_cast<double>(own_bytes() - before), static_cast<double>(size), slack) << size;
  }
}

TEST_F(ScratchMemory, GivesBackWhatItOutgrows) {
  const int64_t before = own_bytes();
  Scratch scratch;
  for (size_t size = huge_page / 8; size <= 4 * huge_page; size += huge_page / 8) filled(scratch, 0, size);
  EXPECT_NEAR(static_cast<double>(own_bytes() - before), 4.0 * huge_page, slack);
}

TEST(Scratch, GivesTheSameMemoryAgainAndOtherPlacesTheirOwn) {
  Scratch scratch;
  void* const first = filled(scratch, 0, 3000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % huge_page, 0U);
  EXPECT_NE(filled(scratch, 1, 3000), first);
  EXPECT_EQ(scratch.bytes(0, 4096), first);
  EXPECT_EQ(static_cast<const char*>(first)[2999], 1);
}

TEST_F(ScratchMemory, FillsAHugePageWhereMoreThanHalfOfItIsUsed) {
  const int64_t before = own_bytes();
  Scratch scratch;
  filled(scratch, 0, huge_page + huge_page / 2 + 1);
  const int64_t kept = own_bytes() - before;
  EXPECT_LE(kept, static_cast<int64_t>(2 * huge_page) + slack);
  EXPECT_GE(kept, static_cast<int64_t>(huge_page + huge_page / 2));
}

#ifdef __SANITIZE_ADDRESS__
TEST(ScratchDeathTest, EndsWhereTheLastRequestEnds) {
  Scratch scratch;
  filled(scratch, 0, 8000);
  char* const at = static_cast<char*>(scratch.bytes(0, 800));
  at[799] = 1;
  EXPECT_DEATH(at[800] = 1, "AddressSanitizer");
}
#endif

}  // namespace
}  // namespace meshrt
