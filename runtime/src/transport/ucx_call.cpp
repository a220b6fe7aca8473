#include "transport/ucx_call.h"

#include <fmt/format.h>

#include <cstring>

#include "meshrt/failure.h"

namespace meshrt {

// Group 8 bits, sequence 24, step 16, sender 16: where in the program a message belongs.
uint64_t UcxCall::tag(int sender, uint32_t step) const {
  return static_cast<uint64_t>(group_.id) << 56 | static_cast<uint64_t>(call_.sequence & 0xffffff) << 32 |
         static_cast<uint64_t>(step & 0xffff) << 16 | static_cast<uint64_t>(sender);
}

// A permute concerns the two neighbours only.
bool UcxCall::is_partner(int member) const {
  if (member == call_.me) return false;
  return call_.kind != Kind::permute || member == call_.to || member == call_.from;
}

int64_t UcxCall::message_bytes() const {
  return static_cast<int64_t>(sizeof(UcxTransport::Announcement)) + small_payload;
}

void UcxCall::announce() {
  UcxTransport::Round& round = this->round();
  round.own.resize(message_bytes());
  round.theirs.resize(message_bytes() * group_.size());
  round.received.resize(group_.size());
  UcxTransport::Announcement text{fingerprint(group_, call_), {}};
  text.value.assign(call_.site);
  std::memcpy(round.own.data(), &text, sizeof text);
  int64_t bytes = sizeof text;
  if (const int64_t data = source_bytes(call_); call_.kind == Kind::all_reduce && data <= small_payload) {
    pack_values(call_, round.own.data() + bytes, 0, data);
    bytes += data;
  }
  // The peers' announcements have room for the longest, so one of another call arrives whole and can be named.
  for (int member = 0; member < group_.size(); ++member)
    if (is_partner(member))
      transport_.worker_.receive(round.received[member], tag(member, 0), round.theirs.data() + member * message_bytes(),
                                 message_bytes());
  for (int member = 0; member < group_.size(); ++member)
    if (is_partner(member))
      transport_.worker_.send(round.sent, group_.members[member], tag(call_.me, 0), round.own.data(), bytes);
}

void UcxCall::await_announcements() {
  UcxTransport::Round& round = this->round();
  UcxTransport::Announcement mine, theirs;
  std::memcpy(&mine, round.own.data(), sizeof mine);
  for (int member = 0; member < group_.size(); ++member) {
    if (!is_partner(member)) continue;
    await(round.received[member], member);
    std::memcpy(&theirs, round.theirs.data() + member * message_bytes(), sizeof theirs);
    check_match(group_, call_, mine.print, member, theirs.print, theirs.value);
  }
  await(round.sent, call_.me);
}

const std::byte* UcxCall::small_of(int member) const {
  const UcxTransport::Round& round = this->round();
  const std::byte* message = member == call_.me ? round.own.data() : round.theirs.data() + member * message_bytes();
  return message + sizeof(UcxTransport::Announcement);
}

void UcxCall::send(int member, uint32_t step, const std::byte* data, int64_t bytes) {
  if (bytes == 0) return;
  transport_.worker_.send(posted_.emplace_back(Posted{member, {}}).batch, group_.members[member], tag(call_.me, step),
                          data, bytes);
}

void UcxCall::receive(int member, uint32_t step, std::byte* data, int64_t bytes) {
  if (bytes == 0) return;
  transport_.worker_.receive(posted_.emplace_back(Posted{member, {}}).batch, tag(member, step), data, bytes);
}

void UcxCall::await() {
  for (Posted& posted : posted_) await(posted.batch, posted.member);
  posted_.clear();
}

void UcxCall::await(UcxWorker::Batch& batch, int member) {
  const int rank = group_.members[member];
  static const std::atomic<uint32_t> never{0};  // the launcher ends processes; there is no flag
  std::chrono::steady_clock::time_point seen_finished{};
  const auto ready = [&] {
    if (!batch.finished()) transport_.worker_.progress(batch);
    return batch.finished();
  };
  const auto look = [&] {
    Control& control = transport_.worker_.control();
    control.look();
    if (member == call_.me) return;
    if (!control.has_finished(rank)) return transport_.worker_.check_connected(rank);
    // Its last messages may still be on the way.
    constexpr auto grace = std::chrono::seconds(2);
    const auto now = std::chrono::steady_clock::now();
    if (seen_finished == std::chrono::steady_clock::time_point{}) seen_finished = now;
    if (now - seen_finished > grace) throw Failure(Cause::mismatch, ended_message(group_, call_, member));
  };
  const auto late = [&] {
    return fmt::format("{}. If it only needs longer, set MESHRT_TIMEOUT to more seconds",
                       late_message(group_, call_, member, transport_.policy_.timeout));
  };
  wait_until(transport_.policy_, never, ready, look, late);
}

}  // namespace meshrt
