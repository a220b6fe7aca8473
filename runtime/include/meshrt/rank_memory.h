// rank_memory.h: what a rank uses of its memory. Addresses are the same on all ranks; where ranks do unlike work, as
// the stages of a pipeline do, each uses a part of them.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace meshrt {

/// Memory comes in such pages where the system gives them: gaps that are smaller are not worth leaving out.
constexpr size_t huge_page = size_t{2} << 20;

/// Bytes from one to before another.
struct MemoryRange {
  size_t begin, end;
  bool operator==(const MemoryRange&) const = default;
};

/// In order of addresses, and apart; elsewhere the rank writes nothing.
struct RankMemory {
  std::vector<MemoryRange> arena, own;
  size_t bytes() const;
  bool operator==(const RankMemory&) const = default;
};

/// Of each rank of a job.
using UsedMemory = std::function<RankMemory(int rank)>;

/// The same bytes, in order: what overlaps or touches as one range.
std::vector<MemoryRange> joined_ranges(std::vector<MemoryRange> ranges);

}  // namespace meshrt
