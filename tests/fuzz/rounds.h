// rounds.h: one mutant after the other, for a while.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>

namespace mesh::fuzz {

/// Mutants first to first + count - 1, for at most `limit` of processor time, whatever
/// else the machine does; `accepts` tells whether one is taken as right. Prints how many there were. The exit code is
/// 1, and stderr has the mutant's number, where it throws.
int run_rounds(uint64_t first, uint64_t count, std::chrono::seconds limit,
               const std::function<bool(uint64_t number)>& accepts);

}  // namespace mesh::fuzz
