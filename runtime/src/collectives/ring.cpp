#include "meshrt/ring.h"

#include <utility>

#include "collectives/vector_ops.h"

namespace meshrt {
namespace {

/// The part that member `index` of `members` has at hand in a turn: that of so many members before it.
int part_of(const Group& group, int turn) { return (group.index - turn % group.size() + group.size()) % group.size(); }
int next_of(const Group& group) { return (group.index + 1) % group.size(); }
int before(const Group& group) { return (group.index + group.size() - 1) % group.size(); }

IndexRange range_in(const Group& group, std::span<const int64_t> begin, int turn) {
  const auto part = static_cast<size_t>(part_of(group, turn));
  return {begin[part], begin[part + 1]};
}

void wait_for(Rank& rank, std::vector<Ticket>& tickets) {
  for (const Ticket ticket : tickets) wait(rank, ticket);
  tickets.clear();
}

}  // namespace

RingParts::RingParts(Rank& rank, const Group& group, Site site, std::span<const int64_t> begin,
                     std::vector<Circulating<2>> values, Type type)
    : rank_(rank), group_(group), site_(site), begin_(begin), values_(std::move(values)), type_(type) {
  hand_on();
}

IndexRange RingParts::range_of(int turn) const { return range_in(group_, begin_, turn); }

const void* RingParts::place(size_t value, int turn) const {
  return turn == 0 ? values_[value].own : values_[value].places[static_cast<size_t>(turn % 2)];
}

/// The part at hand to the next member, and that of the next turn from the member before.
void RingParts::hand_on() {
  if (turn_ + 1 == group_.size()) return;
  for (size_t i = 0; i < values_.size(); ++i) {
    const int64_t row = values_[i].outer * values_[i].inner;
    under_way_.push_back(permute_start(rank_, group_, site_, place(i, turn_), row * range_of(turn_).size(),
                                       next_of(group_), values_[i].places[static_cast<size_t>((turn_ + 1) % 2)],
                                       row * range_of(turn_ + 1).size(), before(group_), type_));
  }
}

bool RingParts::next() {
  wait_for(rank_, under_way_);
  if (turn_ + 1 == group_.size()) return false;
  ++turn_;
  hand_on();
  return true;
}

AttentionShape RingParts::shape(AttentionShape of_own) const {
  of_own.keys = keys().size();
  of_own.key_begin = keys().begin;
  of_own.adds = turn_ > 0;
  return of_own;
}

int64_t RingParts::stride(size_t value, int64_t of_own) const {
  const int64_t own = range_of(0).size(), inner = values_[value].inner;
  return of_own < own * inner ? of_own : of_own / own * keys().size();  // a dim within a key's row, or around all keys
}

HeadStrides RingParts::strides(size_t value, const HeadStrides& of_own) const {
  return {stride(value, of_own.batch), of_own.seq, stride(value, of_own.head)};
}

RingSums::RingSums(Rank& rank, const Group& group, Site site, std::span<const int64_t> begin,
                   std::vector<Circulating<3>> values, Type type)
    : rank_(rank), group_(group), site_(site), begin_(begin), values_(std::move(values)), type_(type) {}

int64_t RingSums::count_of(const Circulating<3>& value, int turn) const {
  return value.outer * value.inner * range_in(group_, begin_, turn).size();
}

void RingSums::add(void* to, const void* more, int64_t count) const {
  const std::array<const std::byte*, 2> both = {static_cast<const std::byte*>(to), static_cast<const std::byte*>(more)};
  vector_ops().reduce(type_, Reduce::sum, static_cast<std::byte*>(to), both.data(), 2, count);
}

/// A part's sum begins with the member behind its owner, who has its own share at home; that of the next turn comes
/// while this rank computes what it adds to it.
void RingSums::next() {
  const bool comes = !under_way_.empty();
  wait_for(rank_, under_way_);
  if (turn_ > 0) {
    for (Circulating<3>& value : values_) {
      auto& [added, came, sent] = value.places;
      if (comes) add(added, came, count_of(value, turn_));
      under_way_.push_back(permute_start(rank_, group_, site_, added, count_of(value, turn_), next_of(group_), came,
                                         count_of(value, turn_ + 1), before(group_), type_));
      std::swap(added, sent);
    }
  }
  ++turn_;
  if (turn_ < group_.size() || under_way_.empty()) return;
  wait_for(rank_, under_way_);
  for (const Circulating<3>& value : values_) add(value.own, value.places[1], count_of(value, 0));
}

}  // namespace meshrt
