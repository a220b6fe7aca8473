#include "transport/circle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace meshrt {

namespace {

const GroupLines* find_lines(const RankArea& area, uint64_t group) {
  for (int place = 0; place < most_groups; ++place) {
    const uint64_t key = area.keys[place].load(std::memory_order_acquire);
    if (key == group) return &area.groups[place];
    if (key == 0) break;
  }
  return nullptr;
}

/// Whom a rank waits for; -1: for none, or for one that has begun the call.
int awaited_by(const SharedMemory& memory, int rank) {
  const RankArea& area = memory.area(rank);
  const int other = area.awaited_rank.load(std::memory_order_acquire) - 1;
  if (other < 0) return -1;
  const GroupLines* const lines = find_lines(memory.area(other), area.awaited_group.load(std::memory_order_relaxed));
  const uint32_t begun = lines ? lines->begun.load(std::memory_order_acquire) : 0;
  return reached(begun, area.awaited_call.load(std::memory_order_relaxed)) ? -1 : other;
}

/// The call in which it waits.
std::string call_of(const RankArea& area) {
  const uint32_t sequence = area.awaited_call.load(std::memory_order_relaxed);
  const GroupLines* const lines = find_lines(area, area.awaited_group.load(std::memory_order_relaxed));
  const Slot* const slot = lines ? &lines->slot[sequence % slots] : nullptr;
  return slot && slot->sequence.load(std::memory_order_acquire) == sequence ? describe(slot->print, slot->value.text)
                                                                            : fmt::format("call {}", sequence);
}

}  // namespace

void tell_awaited(const SharedMemory& memory, int rank, int other, uint64_t group, uint32_t sequence) {
  RankArea& area = memory.area(rank);
  area.awaited_group.store(group, std::memory_order_relaxed);
  area.awaited_call.store(sequence, std::memory_order_relaxed);
  area.awaited_rank.store(other + 1, std::memory_order_release);
}

std::vector<int> circle_of(const SharedMemory& memory, int rank) {
  std::vector<int> circle{rank};
  for (;;) {
    const int next = awaited_by(memory, circle.back());
    if (next == rank) return circle;
    if (next < 0 || std::ranges::count(circle, next) > 0) return {};
    circle.push_back(next);
  }
}

std::string circle_message(const SharedMemory& memory, const std::vector<int>& circle) {
  std::vector<std::string> waits;
  for (size_t i = 0; i < circle.size(); ++i)
    waits.push_back(fmt::format("rank {} for rank {} in {}", circle[i], circle[(i + 1) % circle.size()],
                                call_of(memory.area(circle[i]))));
  return fmt::format(
      "ranks {} diverge: each waits for the next in a call that it has not begun, {}. "
      "All ranks of a group must make the same calls in the same order",
      fmt::join(circle, ", "), fmt::join(waits, ", "));
}

}  // namespace meshrt
