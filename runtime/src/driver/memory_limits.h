// memory_limits.h: whether a program's memory fits, told before anything is allocated: a host that runs out kills ranks
// without a word.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "meshrt/program.h"

namespace meshrt {

struct MemoryLimit {
  int64_t bytes;      ///< that the ranks of this host may still take
  std::string whose;  ///< "this host has", "the control group /job leaves", ...
};

/// The tightest of: what the host has available, the memory control groups (versions 1 and 2) of this process and those
/// around them, and what Slurm has granted. `root` stands before /proc and /sys. Nothing where none can be read.
std::optional<MemoryLimit> memory_limit(const std::string& root = "");

/// What to say when `local_ranks` ranks of a program do not fit into the limit; empty: they fit.
std::string memory_problem(const ProgramInfo& info, int local_ranks, const MemoryLimit& limit);

/// Throws Failure (Cause::memory) when the ranks of this host do not fit. Collective.
void check_memory(Rank& rank, const ProgramInfo& info);

}  // namespace meshrt
