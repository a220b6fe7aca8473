#include "transport/shared_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "meshrt/failure.h"
#include "transport/cache_lines.h"

namespace meshrt {

/// In this rank's arena; -1: outside.
int64_t SharedCall::source_offset(const Item& item) const {
  const int64_t bytes = source_bytes(call_, item);
  if (bytes == 0) return 0;
  const auto offset = reinterpret_cast<intptr_t>(item.source) - reinterpret_cast<intptr_t>(transport_.arena_);
  const bool inside =
      transport_.arena_ && offset >= 0 && offset + bytes <= static_cast<int64_t>(transport_.arena_bytes_);
  return inside ? offset : -1;
}

/// Tells where several values lie; the offset of the first, or -1 unless all lie in the arena.
int64_t SharedCall::announce_sources() const {
  if (call_.several.empty()) return source_offset(call_.only);
  std::array<int64_t, most_items> offsets;
  for (size_t i = 0; i < call_.several.size(); ++i) {
    offsets[i] = source_offset(call_.several[i]);
    if (offsets[i] < 0) return -1;
  }
  std::memcpy(small(me()), offsets.data(), call_.several.size() * sizeof(int64_t));
  return offsets[0];
}

GroupLines* SharedCall::find_lines(int member) const {
  RankArea& area = memory_.area(group_.members[member]);
  for (int place = 0; place < most_groups; ++place) {
    const uint64_t key = area.keys[place].load(std::memory_order_acquire);
    if (key == group_.key) return lines_[member] = &area.groups[place];
    if (key == 0) break;
  }
  return nullptr;
}

void SharedCall::announce() const {
  Slot& mine = slot(me(), call_.sequence);
  FingerprintWords::of_call(call_.announced.print, call_.sequence).store(mine.print);
  mine.value = call_.announced.value;
  if (!is_small(call_)) mine.source = announce_sources();
  else if (std::byte* const to = call_.bytes <= line_payload ? mine.payload : small(me()); call_.several.empty())
    std::copy_n(call_.only.source, call_.bytes, to);  // of nothing there may be no address
  else pack_values(call_, to, 0, call_.bytes);
  mine.sequence.store(call_.sequence, std::memory_order_release);
  // The others have read the next slots in their last round; this core owns them again before it writes them.
  own_ahead(static_cast<const void*>(&slot(me(), call_.sequence + 1)));
  own_ahead(static_cast<const void*>(&slot(me(), call_.sequence + 2)));
}

std::byte* SharedCall::source_of(int member, const Item& item) const {
  int64_t offset = slot(member, call_.sequence).source;
  if (!call_.several.empty())
    std::memcpy(&offset, small(member) + (&item - call_.several.data()) * sizeof offset, sizeof offset);
  return transport_.arena_of(group_, member) + offset;
}

bool SharedCall::all_in_place() const {
  for (int member = 0; member < size(); ++member)
    if (!in_place(member)) return false;
  return true;
}

void SharedCall::look(int member, uint32_t sequence) const {
  transport_.meanwhile_();
  const int rank = group_.members[member];
  transport_.look_for_circle(rank, group_, sequence);
  if (memory_.area(rank).finished.load(std::memory_order_acquire) == 0) return;
  if (has_announced(member, call_.sequence)) return;  // it took part before it left
  throw Failure(Cause::mismatch, ended_message(group_, call_, member));
}

std::string SharedCall::late_message(int member) const {
  uint32_t last = 0;
  const Slot* at = nullptr;
  for (uint32_t i = 0; lines_[member] && i < slots; ++i) {
    const Slot& candidate = lines(member).slot[i];
    const uint32_t sequence = candidate.sequence.load(std::memory_order_acquire);
    if (sequence != 0 && (!at || reached(sequence, last))) {
      last = sequence;
      at = &candidate;
    }
  }
  return fmt::format(
      "{}; the last call that rank {} began there is {}. If it only needs longer, set MESHRT_TIMEOUT to more seconds",
      meshrt::late_message(group_, call_, member, transport_.policy_.timeout), group_.members[member],
      at ? fmt::format("{}, {}", last, describe(at->print, at->value.text)) : "none");
}

}  // namespace meshrt
