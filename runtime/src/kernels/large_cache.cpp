#include "large_cache.h"

#include <unistd.h>

namespace meshrt {

bool large_second_level_cache() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  static const bool large = sysconf(_SC_LEVEL2_CACHE_SIZE) >= 1280L << 10;
  return large;
#else
  return false;
#endif
}

}  // namespace meshrt
