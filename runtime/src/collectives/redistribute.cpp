// A value in other parts: every member gives each other one what that needs of it, one distance after the other.
#include "meshrt/redistribute.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "collectives/make_call.h"
#include "collectives/shares.h"

namespace meshrt {

namespace {

/// The same elements where the sender has them and where the receiver does, in elements.
struct Moved {
  Boxes sent, received;
};

/// How far apart neighbours along each dim lie.
std::vector<int64_t> strides_of(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

/// A stretch of every dim, of which neighbours lie so far apart on either side: as few loops as both sides allow.
void add_box(Moved& moved, const std::vector<const Stretch*>& stretches, const std::vector<int64_t>& sender,
             const std::vector<int64_t>& receiver) {
  struct Loop {
    int64_t count, at_sender, at_receiver;
  };
  std::vector<Loop> loops;  // innermost first
  int64_t run = 1, at_sender = 0, at_receiver = 0;
  for (size_t i = stretches.size(); i-- > 0;) {
    const Stretch& one = *stretches[i];
    at_sender += one.at_sender * sender[i];
    at_receiver += one.at_receiver * receiver[i];
    if (one.length == 1) continue;
    const auto goes_on = [&](int64_t from, int64_t to) { return sender[i] == from && receiver[i] == to; };
    if (loops.empty() && goes_on(run, run)) run *= one.length;
    else if (!loops.empty() &&
             goes_on(loops.back().count * loops.back().at_sender, loops.back().count * loops.back().at_receiver))
      loops.back().count *= one.length;
    else loops.push_back({one.length, sender[i], receiver[i]});
  }
  if (loops.empty()) loops.push_back({1, run, run});
  Box from{{at_sender, loops.front().count, run, loops.front().at_sender}},
      to{{at_receiver, loops.front().count, run, loops.front().at_receiver}};
  for (size_t i = loops.size(); i-- > 1;) {
    from.around.push_back({loops[i].count, loops[i].at_sender});
    to.around.push_back({loops[i].count, loops[i].at_receiver});
  }
  moved.sent.push_back(std::move(from));
  moved.received.push_back(std::move(to));
}

/// Every stretch of one dim with every one of the others.
Moved boxes_of(std::span<const Common* const> common, const std::vector<int64_t>& sender,
               const std::vector<int64_t>& receiver) {
  Moved moved;
  std::vector<const Stretch*> chosen;
  const std::function<void()> choose = [&] {
    if (chosen.size() == common.size()) return add_box(moved, chosen, sender, receiver);
    for (const Stretch& one : common[chosen.size()]->stretches) {
      chosen.push_back(&one);
      choose();
      chosen.pop_back();
    }
  };
  choose();
  return moved;
}

}  // namespace

/// What goes to the member that is so many further, and comes from the one as many before: by distance.
struct Redistribution::Exchanges {
  std::map<int, Boxes> sent;
  std::map<int, Moved> received;
  Moved kept;
  std::vector<int> distances;  // at which any members exchange something
};

Redistribution::Redistribution(const Group& group, const std::vector<MovedDim>& dims) {
  const Shares shares(group, dims);
  Exchanges made;
  std::vector<bool> used(static_cast<size_t>(group.size()), false);
  shares.each([&](int sender, int receiver, std::span<const Common* const> common) {
    const int distance = (receiver + group.size() - sender) % group.size();
    used[static_cast<size_t>(distance)] = true;
    if (sender != group.index && receiver != group.index) return;
    Moved moved = boxes_of(common, strides_of(shares.held_before(sender)), strides_of(shares.held_after(receiver)));
    if (sender == receiver) made.kept = std::move(moved);
    else if (sender == group.index) made.sent[distance] = std::move(moved.sent);
    else made.received[distance] = std::move(moved);
  });
  for (int distance = 1; distance < group.size(); ++distance)
    if (used[static_cast<size_t>(distance)]) made.distances.push_back(distance);
  exchanges_ = std::make_shared<const Exchanges>(std::move(made));
}

void reorder(const void* from, void* to, const Redistribution& plan, Type type) {
  const auto size = static_cast<int64_t>(size_of(type));
  const Moved& kept = plan.exchanges_->kept;
  const Boxes received = scaled(kept.received, size);
  copy_boxes(static_cast<std::byte*>(to), received, static_cast<const std::byte*>(from), scaled(kept.sent, size), 0,
             bytes_of(received));
}

std::vector<Call> redistribute_calls(const Group& group, Site site, const void* from, void* to,
                                     const Redistribution& plan, Type type) {
  const Redistribution::Exchanges& made = *plan.exchanges_;
  const Boxes nothing;
  std::vector<Call> calls;
  for (const int distance : made.distances) {
    const auto sent = made.sent.find(distance);
    const auto received = made.received.find(distance);
    const bool sends = sent != made.sent.end(), receives = received != made.received.end();
    calls.push_back(permute_call(
        group, site, from, sends ? sent->second : nothing, sends ? (group.index + distance) % group.size() : -1, to,
        receives ? received->second.sent : nothing, receives ? received->second.received : nothing,
        receives ? (group.index + group.size() - distance) % group.size() : -1, type));
  }
  if (calls.empty()) calls.push_back(own_call(group, site, type));  // on all members
  const auto size = static_cast<int64_t>(size_of(type));
  const Moved kept{scaled(made.kept.sent, size), scaled(made.kept.received, size)};
  calls.back().own_bytes = bytes_of(kept.received);
  calls.back().then = [=](int64_t begin, int64_t end) {
    copy_boxes(static_cast<std::byte*>(to), kept.received, static_cast<const std::byte*>(from), kept.sent, begin, end);
  };
  return calls;
}

void redistribute(Rank& rank, const Group& group, Site site, const void* from, void* to, const Redistribution& plan,
                  Type type) {
  Ticket last;  // with which those before it are finished
  for (Call& call : redistribute_calls(group, site, from, to, plan, type)) last = start(rank, group, std::move(call));
  wait(rank, last);
}

}  // namespace meshrt
