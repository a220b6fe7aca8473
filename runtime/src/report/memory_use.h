// memory_use.h: what memory of this process is in use, by what it is for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace meshrt {

/// Bytes that are there. What ranks share (arenas, slots) is in none of them.
struct MemoryUse {
  int64_t own = 0;        ///< private and of no file: blocks of tensors, heap, stacks
  int64_t libraries = 0;  ///< the program and its libraries, which processes of a host share
  int64_t files = 0;      ///< other files that are mapped: data, parameters
};

/// Of this process; all 0 where the kernel does not tell.
MemoryUse memory_use();
/// Of the text of a /proc/PID/smaps.
MemoryUse memory_use_of(const std::string& smaps);

/// How many of the bytes are there.
int64_t resident(const void* begin, size_t bytes);

}  // namespace meshrt
