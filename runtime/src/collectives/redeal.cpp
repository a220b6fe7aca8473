// A dim dealt anew: every member gives each other one what that has afterwards, one distance after the other.
#include "meshrt/redeal.h"

#include <algorithm>
#include <cstring>

#include "collectives/make_call.h"

namespace meshrt {

Redeal::Redeal(int members, int me, int64_t size, const Deal& before, const Deal& after) : members_(members), me_(me) {
  const auto held = [&](const Deal& deal, int member) {
    return ranges_at(size, deal, part_begin(size, deal, member, members), part_begin(size, deal, member + 1, members));
  };
  const auto extent = [&](const Deal& deal, int member) {
    return part_begin(size, deal, member + 1, members) - part_begin(size, deal, member, members);
  };
  const auto common = [&](int sender, int receiver) {
    std::vector<Stretch> all;
    int64_t at_sender = 0;
    for (const IndexRange& has : held(before, sender)) {
      int64_t at_receiver = 0;
      for (const IndexRange& gets : held(after, receiver)) {
        const int64_t begin = std::max(has.begin, gets.begin), end = std::min(has.end, gets.end);
        if (begin < end) all.push_back({at_sender + begin - has.begin, at_receiver + begin - gets.begin, end - begin});
        at_receiver += gets.size();
      }
      at_sender += has.size();
    }
    return all;
  };
  before_ = extent(before, me);
  after_ = extent(after, me);
  kept_ = common(me, me);
  for (int distance = 1; distance < members; ++distance) {
    const int from = (me + members - distance) % members;
    Exchange one{distance, common(me, (me + distance) % members), common(from, me), extent(before, from), 0};
    for (int member = 0; member < members; ++member)
      one.calls = std::max(one.calls, common(member, (member + distance) % members).size());
    if (one.calls > 0) exchanges_.push_back(std::move(one));
  }
}

void reorder(const void* from, void* to, const Redeal& plan, int64_t outer, int64_t inner, Type type) {
  const int64_t row = inner * static_cast<int64_t>(size_of(type));
  const auto* source = static_cast<const std::byte*>(from);
  auto* destination = static_cast<std::byte*>(to);
  for (int64_t o = 0; o < outer; ++o)
    for (const Redeal::Stretch& one : plan.kept_)
      std::memcpy(destination + (o * plan.after_ + one.at_receiver) * row,
                  source + (o * plan.before_ + one.at_sender) * row, static_cast<size_t>(one.length * row));
}

std::vector<Call> redeal_calls(const Group& group, Site site, const void* from, void* to, const Redeal& plan,
                               int64_t outer, int64_t inner, Type type) {
  const auto piece = [&](int64_t at, int64_t length, int64_t extent) {
    return Piece{at * inner, outer, length * inner, extent * inner};
  };
  std::vector<Call> calls;
  for (const Redeal::Exchange& one : plan.exchanges_)
    for (size_t call = 0; call < one.calls; ++call) {
      int receiver = -1, sender = -1;
      Piece sent, taken, received;
      if (call < one.sent.size()) {
        receiver = (plan.me_ + one.distance) % plan.members_;
        sent = piece(one.sent[call].at_sender, one.sent[call].length, plan.before_);
      }
      if (call < one.received.size()) {
        const Redeal::Stretch& stretch = one.received[call];
        sender = (plan.me_ + plan.members_ - one.distance) % plan.members_;
        taken = piece(stretch.at_sender, stretch.length, one.sender_extent);
        received = piece(stretch.at_receiver, stretch.length, plan.after_);
      }
      calls.push_back(permute_call(group, site, from, sent, receiver, to, taken, received, sender, type));
    }
  if (calls.empty()) calls.push_back(own_call(group, site, type));  // on all members
  calls.back().then = [=] { reorder(from, to, plan, outer, inner, type); };
  return calls;
}

void redeal(Rank& rank, const Group& group, Site site, const void* from, void* to, const Redeal& plan, int64_t outer,
            int64_t inner, Type type) {
  Ticket last;  // with which those before it are finished
  for (Call& call : redeal_calls(group, site, from, to, plan, outer, inner, type))
    last = start(rank, group, std::move(call));
  wait(rank, last);
}

}  // namespace meshrt
