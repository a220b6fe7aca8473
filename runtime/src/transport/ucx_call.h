// ucx_call.h: one call of one member over UCX: announcements, and rounds of messages. The algorithms in
// collectives/ucx_*.cpp are written with this.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "transport/fingerprint.h"
#include "transport/task.h"
#include "transport/ucx.h"

namespace meshrt {

class UcxCall {
 public:
  UcxCall(UcxTransport& transport, const Group& group, const Call& call)
      : transport_(&transport), group_(&group), call_(&call) {}

  /// Contributions of at most this many bytes travel with the announcement.
  static constexpr int64_t small_payload = 4096;

  /// A pair of members exchanges this much at a time: 1 MiB, and less in large groups or where a call needs more than
  /// two rooms of a round for each member, so that a rank's rooms stay bounded.
  static constexpr int64_t round_bytes(int members, int rooms = 2) {
    const int64_t of_two = std::min(mebi, std::max(shortest_round, most_room / members / page * page));
    return std::max(page, 2 * of_two / rooms / page * page);
  }
  /// Of an all-reduce: a round has a room for pieces, and where values are packed one for sums and one for what leaves.
  static constexpr int rooms_of_sums(bool packs) { return packs ? 3 : 1; }
  static constexpr int64_t round_bytes_of_sums(int members, bool packs) {
    return std::min(round_bytes(members, 2 * rooms_of_sums(packs)), mebi / 2);
  }
  /// And how many of its rounds are under way: a link takes its bandwidth times its latency before the first answer, 2
  /// MiB of 1 GB/s and 2 ms. The more members, the more goes out in each.
  static constexpr int most_rounds_of_sums = 8;
  static constexpr int rounds_of_sums(int members) { return std::clamp(16 / members, 2, most_rounds_of_sums); }
  /// The most that all rooms of a call take in a job of so many ranks.
  static constexpr int64_t most_rooms(int ranks) {
    int64_t most = 2 * ranks * round_bytes(ranks);
    for (int members = 2; members <= std::min(ranks, 16); ++members)
      most =
          std::max(most, members * rounds_of_sums(members) * rooms_of_sums(true) * round_bytes_of_sums(members, true));
    return most;
  }

 private:
  struct Posted {
    int member;
    bool announces;  ///< it is the member's announcement
    UcxWorker::Batch batch;
  };

 public:
  /// All that was posted has arrived or left. Throws Failure (Cause::mismatch) when an announcement is of another call.
  class Finished final : public Condition {
   public:
    Finished(UcxCall& call, int lane) : call_(call), posted_(call.posted_[lane]) {}
    bool met() override;
    void look() override;
    std::string late() override;

   private:
    UcxCall& call_;
    std::vector<Posted>& posted_;
    std::chrono::steady_clock::time_point seen_ended_{};
  };

  /// What of a group's key is in the tags of its messages.
  static uint64_t tag_of(const Group& group) { return (group.key & 0x3fffffff) << 34; }

  void announce();
  /// A member's contribution to a small all-reduce, which all have announced.
  const std::byte* small_of(int member) const;

  /// Posts one message of step `step` (from 1) to or from a member. Empty messages are not sent. Those of different
  /// lanes can be waited for by themselves.
  static constexpr int lanes = 1 + 2 * most_rounds_of_sums;  // of announcements, then of what an algorithm sends
  void send(int member, uint32_t step, const std::byte* data, int64_t bytes, int lane = 0);
  void receive(int member, uint32_t step, std::byte* data, int64_t bytes, int lane = 0);
  Finished finished(int lane = 0) { return {*this, lane}; }

  /// Room for pieces that are packed to be sent, or received to be used.
  BufferPool::Buffer room(int64_t bytes) const { return transport_->buffers_.take(bytes); }

 private:
  static constexpr int64_t mebi = 1 << 20, page = 4096;
  static constexpr int64_t most_room = 16 * mebi, shortest_round = 4 * page;

  /// What a member sends first; contributions of up to `small_payload` bytes follow it in the same message.
  static constexpr int64_t message_bytes = sizeof(Announcement) + small_payload;
  const std::byte* announcement_of(int member) const {
    return announcements_.data() + (member == call_->me ? call_->members : member) * message_bytes;
  }
  bool is_partner(int member) const;
  uint64_t tag(int sender, uint32_t step) const;
  void check(int member) const;

  UcxTransport* transport_;
  const Group* group_;
  const Call* call_;
  BufferPool::Buffer announcements_;               // of the members, then this one's own
  std::array<std::vector<Posted>, lanes> posted_;  // the last is waited for first
};

// The algorithms: announce the call, then run it.
Task ucx_all_reduce(UcxCall exchange, const Call& call, HeadOfQueue& head);
Task ucx_movement(UcxCall exchange, const Call& call, HeadOfQueue& head);
Task ucx_permute(UcxCall exchange, const Call& call, HeadOfQueue& head);
Task ucx_message(UcxCall exchange, const Call& call, HeadOfQueue& head);

}  // namespace meshrt
