#include "meshrt/rank_memory.h"

#include <algorithm>

#include "meshrt/program_info.h"

namespace meshrt {

size_t RankMemory::bytes() const {
  size_t sum = 0;
  for (const auto& ranges : {arena, own})
    for (const MemoryRange& range : ranges) sum += range.end - range.begin;
  return sum;
}

RankMemory memory_of(const ProgramInfo& info, int rank) {
  if (info.used_memory.empty()) return {{{0, info.arena_bytes}}, {{0, info.own_bytes}}};
  size_t index = 0;
  for (const std::string& name : info.memory_axes) {
    const MeshAxis& axis = *std::ranges::find(info.mesh, name, &MeshAxis::name);
    index = index * static_cast<size_t>(axis.size) + static_cast<size_t>(rank / axis.stride % axis.size);
  }
  return info.used_memory[index];
}

size_t most_memory(const ProgramInfo& info) {
  size_t most = info.used_memory.empty() ? info.arena_bytes + info.own_bytes : 0;
  for (const RankMemory& one : info.used_memory) most = std::max(most, one.bytes());
  return most;
}

std::vector<MemoryRange> joined_ranges(std::vector<MemoryRange> ranges) {
  std::ranges::sort(ranges, {}, &MemoryRange::begin);
  std::vector<MemoryRange> joined;
  for (const MemoryRange& range : ranges) {
    if (range.begin == range.end) continue;
    if (!joined.empty() && range.begin <= joined.back().end) joined.back().end = std::max(joined.back().end, range.end);
    else joined.push_back(range);
  }
  return joined;
}

}  // namespace meshrt
