#include "large_cache.h"

#include <unistd.h>

#include <atomic>

namespace meshrt {
namespace {

bool is_large() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  return sysconf(_SC_LEVEL2_CACHE_SIZE) >= 1280L << 10;
#else
  return false;
#endif
}

std::atomic<bool>& large() {
  static std::atomic<bool> it = is_large();
  return it;
}

}  // namespace

bool large_second_level_cache() { return large().load(std::memory_order_relaxed); }
void suppose_second_level_cache(bool is_large) { large().store(is_large, std::memory_order_relaxed); }

}  // namespace meshrt
