// memory_limit.h: how much memory this host, or what this process runs in, still has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace meshrt {

struct MemoryLimit {
  int64_t bytes;      ///< that the ranks of this host may still take
  std::string whose;  ///< "this host has", "the control group /job leaves", ...
};

/// The tightest of: what the host has available, the memory control groups (versions 1 and 2) of this process and those
/// around them, and what Slurm has granted. `root` stands before /proc and /sys. Nothing where none can be read.
std::optional<MemoryLimit> memory_limit(const std::string& root = "");

}  // namespace meshrt
