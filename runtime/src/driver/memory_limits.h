// memory_limits.h: whether a program's memory fits, told before anything is allocated: a host that runs out kills ranks
// without a word.
#pragma once
#include <span>
#include <string>

#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "system/memory_limit.h"

namespace meshrt {

/// What to say when these ranks of a program do not fit into the limit; empty: they fit.
std::string memory_problem(const ProgramInfo& info, std::span<const int> ranks, const MemoryLimit& limit);

/// Throws Failure (Cause::memory) when the ranks of this host do not fit. Collective.
void check_memory(Rank& rank, const ProgramInfo& info);

}  // namespace meshrt
