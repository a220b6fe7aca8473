// ucx_call.h: one call of one member over UCX: announcements, and rounds of messages. The algorithms in
// collectives/ucx_*.cpp are written with this.
#pragma once
#include <algorithm>
#include <memory>

#include "transport/ucx.h"

namespace meshrt {

class UcxCall {
 public:
  UcxCall(UcxTransport& transport, const Group& group, const Call& call)
      : transport_(transport), group_(group), call_(call) {}

  /// Contributions of at most this many bytes travel with the announcement.
  static constexpr int64_t small_payload = 4096;

  /// A pair of members exchanges this much at a time: 1 MiB, and less in large groups, so that a rank's rooms stay
  /// bounded.
  static constexpr int64_t round_bytes(int members) {
    return std::min(mebi, std::max(shortest_round, most_room / members / page * page));
  }
  /// The most that a rank of a job of so many ranks needs for outgoing() and incoming() together.
  static constexpr int64_t most_rooms(int ranks) { return 2 * ranks * round_bytes(ranks); }

  void announce();
  /// Waits for every partner's announcement and throws Failure (Cause::mismatch) when one is of another call.
  void await_announcements();
  /// A member's contribution to a small all-reduce, after await_announcements.
  const std::byte* small_of(int member) const;

  /// Posts one message of step `step` (from 1) to or from a member. Empty messages are not sent.
  void send(int member, uint32_t step, const std::byte* data, int64_t bytes);
  void receive(int member, uint32_t step, std::byte* data, int64_t bytes);
  /// Waits for all that was posted.
  void await();

  /// Room for `count` pieces of `bytes` bytes each, packed to be sent or received to be used, until the call ends.
  std::byte* outgoing(int64_t count, int64_t bytes) { return room(transport_.outgoing_, count * bytes); }
  std::byte* incoming(int64_t count, int64_t bytes) { return room(transport_.incoming_, count * bytes); }

 private:
  static constexpr int64_t mebi = 1 << 20, page = 4096;
  static constexpr int64_t most_room = 16 * mebi, shortest_round = 4 * page;

  static std::byte* room(UcxTransport::Room& room, int64_t bytes) {
    if (room.bytes < bytes) room = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    return room.data.get();
  }
  UcxTransport::Round& round() const { return transport_.rounds_[group_.id][call_.sequence % Transport::max_pending]; }
  bool is_partner(int member) const;
  int64_t message_bytes() const;
  uint64_t tag(int sender, uint32_t step) const;
  void await(UcxWorker::Batch& batch, int member);

  UcxTransport& transport_;
  const Group& group_;
  const Call& call_;
  struct Posted {
    int member;
    UcxWorker::Batch batch;
  };
  std::vector<Posted> posted_;
};

// The algorithms: what `finish` runs after the announcements.
void ucx_all_reduce(UcxCall& exchange, const Call& call);
void ucx_movement(UcxCall& exchange, const Call& call);

}  // namespace meshrt
