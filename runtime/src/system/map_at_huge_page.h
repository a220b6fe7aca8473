// map_at_huge_page.h: memory of this process that begins where a huge page may.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "meshrt/rank_memory.h"

namespace meshrt {

/// `bytes`, at least 1 and of whole pages, at a 2 MiB boundary, with protection and further flags as mmap takes them.
/// Null where the system refuses.
inline std::byte* map_at_huge_page(size_t bytes, int protection, int flags = 0) {
  // Room with slack, so that a 2 MiB boundary lies inside; the slack is given back at once.
  void* const room = mmap(nullptr, bytes + huge_page, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* const start = static_cast<std::byte*>(room);
  const size_t before = -reinterpret_cast<uintptr_t>(start) % huge_page;
  if (before > 0) munmap(start, before);
  munmap(start + before + bytes, huge_page - before);
  return start + before;
}

}  // namespace meshrt
