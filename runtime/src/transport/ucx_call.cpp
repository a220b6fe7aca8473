#include "transport/ucx_call.h"

#include <fmt/format.h>

#include <cstring>

#include "meshrt/failure.h"

namespace meshrt {

// Group 30 bits, sequence 8, step 10, sender 16: where in the program a message belongs. Numbers may wrap around:
// between two ranks few are under way at a time, and UCX takes messages of one tag in the order in which they were
// sent.
uint64_t UcxCall::tag(int sender, uint32_t step) const {
  return tag_of(*group_) | static_cast<uint64_t>(call_->sequence & 0xff) << 26 |
         static_cast<uint64_t>(step & 0x3ff) << 16 | static_cast<uint64_t>(group_->members[sender] & 0xffff);
}

// A permute concerns the two neighbours only.
bool UcxCall::is_partner(int member) const {
  if (member == call_->me) return false;
  return (call_->kind != Kind::permute && call_->kind != Kind::message) || member == call_->to || member == call_->from;
}

void UcxCall::announce() {
  announcements_ = transport_->buffers_.take(message_bytes * (call_->members + 1));
  std::byte* const own = announcements_.data() + call_->members * message_bytes;
  Announcement text = call_->announced;
  text.print.sequence = call_->sequence;
  std::memcpy(own, &text, sizeof text);
  int64_t bytes = sizeof text;
  if (call_->kind == Kind::all_reduce && call_->bytes <= small_payload) {
    pack_values(*call_, own + bytes, 0, call_->bytes);
    bytes += call_->bytes;
  }
  // The peers' announcements have room for the longest, so one of another call arrives whole and can be named.
  for (int member = 0; member < call_->members; ++member)
    if (is_partner(member)) receive(member, 0, announcements_.data() + member * message_bytes, message_bytes);
  for (int member = 0; member < call_->members; ++member)
    if (is_partner(member)) send(member, 0, own, bytes);
}

void UcxCall::check(int member) const {
  Announcement mine, theirs;
  std::memcpy(&mine, announcement_of(call_->me), sizeof mine);
  std::memcpy(&theirs, announcement_of(member), sizeof theirs);
  check_match(*group_, *call_, mine.print, member, theirs.print, theirs.value);
}

const std::byte* UcxCall::small_of(int member) const { return announcement_of(member) + sizeof(Announcement); }

void UcxCall::send(int member, uint32_t step, const std::byte* data, int64_t bytes, int lane) {
  if (bytes == 0) return;
  transport_->worker_.send(posted_[lane].emplace_back(Posted{member, false, {}}).batch, group_->members[member],
                           tag(call_->me, step), data, bytes);
}

void UcxCall::receive(int member, uint32_t step, std::byte* data, int64_t bytes, int lane) {
  if (bytes == 0) return;
  transport_->worker_.receive(posted_[lane].emplace_back(Posted{member, step == 0, {}}).batch, group_->members[member],
                              tag(member, step), data, bytes);
}

bool UcxCall::Finished::met() {
  while (!posted_.empty()) {
    Posted& posted = posted_.back();
    if (!posted.batch.finished()) call_.transport_->worker_.progress(posted.batch);
    if (!posted.batch.finished()) return false;
    if (posted.announces) call_.check(posted.member);
    posted_.pop_back();
  }
  return true;
}

void UcxCall::Finished::look() {
  Control& control = call_.transport_->worker_.control();
  control.look();
  const int member = posted_.back().member, rank = call_.group_->members[member];
  if (!control.has_finished(rank)) return call_.transport_->worker_.check_connected(rank);
  // Its last messages may still be on the way.
  constexpr auto grace = std::chrono::seconds(2);
  const auto now = std::chrono::steady_clock::now();
  if (seen_ended_ == std::chrono::steady_clock::time_point{}) seen_ended_ = now;
  if (now - seen_ended_ > grace) throw Failure(Cause::mismatch, ended_message(*call_.group_, *call_.call_, member));
}

std::string UcxCall::Finished::late() {
  return fmt::format(
      "{}. If it only needs longer, set MESHRT_TIMEOUT to more seconds",
      late_message(*call_.group_, *call_.call_, posted_.back().member, call_.transport_->policy_.timeout));
}

}  // namespace meshrt
