// cache_lines.h: memory that several cores write. A line that another core has read is bought twice by a core that
// reads it and then writes it: once to look, once to own. Asked for to be written, it comes owned, in one trip and
// ahead of its use.
#pragma once
#include <cstddef>
#include <cstdint>

namespace meshrt {

constexpr int64_t cache_line = 64;

/// Begins to bring the line at `place` into this core's cache, to be written. Waits for nothing; never fails.
inline void own_ahead(const void* place) {
#if defined(__x86_64__)
  // By hand: without -mprfchw the compiler's own prefetch for writing asks for reading.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, 1);
#endif
}

/// The same for all lines of [begin, begin + bytes).
inline void own_ahead(const std::byte* begin, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += cache_line) own_ahead(static_cast<const void*>(begin + at));
}

}  // namespace meshrt
