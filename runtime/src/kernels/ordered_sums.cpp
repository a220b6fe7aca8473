#include "meshrt/ordered_sums.h"

#include <atomic>
#include <limits>

#include "scratch.h"
#include "scratch_places.h"
#include "system/wait.h"

namespace meshrt {
namespace {

constexpr int64_t failed = std::numeric_limits<int64_t>::max();

/// Returns when `next` is the block, or beyond it: a block has failed. The block before is about to end as a rule.
int64_t wait_for(const std::atomic<int64_t>& next, int64_t block) {
  constexpr int looks = 4096;
  int64_t now = next.load(std::memory_order_acquire);
  for (int look = 0; look < looks && now < block; ++look) {
    pause_core();
    now = next.load(std::memory_order_acquire);
  }
  for (; now < block; now = next.load(std::memory_order_acquire)) next.wait(now, std::memory_order_acquire);
  return now;
}

}  // namespace

// Threads take blocks in their order, so whoever waits waits for blocks that others are at.
void detail::in_order(Threads& threads, int64_t blocks, int64_t bytes,
                      const std::function<void(int64_t, void*)>& compute,
                      const std::function<void(int64_t, void*)>& finish) {
  std::atomic<int64_t> taken = 0, next = 0;
  threads.run(threads.count(), [&](int64_t) {
    try {
      for (int64_t block; (block = taken.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
        void* const memory = Scratch::mine().bytes(ordered_sums_scratch, static_cast<size_t>(bytes));
        compute(block, memory);
        if (wait_for(next, block) == failed) return;
        finish(block, memory);
        int64_t now = block;  // unless one has failed meanwhile
        next.compare_exchange_strong(now, block + 1, std::memory_order_acq_rel);
        next.notify_all();
      }
    } catch (...) {
      next.store(failed, std::memory_order_release);
      next.notify_all();
      throw;
    }
  });
}

}  // namespace meshrt
