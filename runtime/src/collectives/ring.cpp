#include "meshrt/ring.h"

#include <utility>

#include "collectives/vector_ops.h"

namespace meshrt {
namespace {

/// The part that this member has at hand in a turn: that of so many members before it.
int part_of(const Group& group, int turn) { return (group.index - turn % group.size() + group.size()) % group.size(); }
int next_of(const Group& group) { return (group.index + 1) % group.size(); }
int before(const Group& group) { return (group.index + group.size() - 1) % group.size(); }

void wait_for(Rank& rank, std::vector<Ticket>& tickets) {
  for (const Ticket ticket : tickets) wait(rank, ticket);
  tickets.clear();
}

}  // namespace

RingParts::RingParts(Rank& rank, const Group& group, Site site, std::span<const int64_t> begin,
                     std::vector<Circulating<2>> values, Type type, const Deal& deal)
    : rank_(rank), group_(group), site_(site), begin_(begin), values_(std::move(values)), type_(type), deal_(deal) {
  begin_turn();
}

int64_t RingParts::rows_of(int turn) const {
  const auto part = static_cast<size_t>(part_of(group_, turn));
  return begin_[part + 1] - begin_[part];
}

const void* RingParts::place(size_t value, int turn) const {
  return turn == 0 ? values_[value].own : values_[value].places[static_cast<size_t>(turn % 2)];
}

/// The part at hand goes to the next member while it is worked on, and that of the next turn comes from the one before.
void RingParts::begin_turn() {
  const auto part = static_cast<size_t>(part_of(group_, turn_));
  stretches_ = ranges_at(begin_.back(), deal_, begin_[part], begin_[part + 1]);
  if (stretches_.empty()) stretches_.emplace_back();
  stretch_ = 0;
  row_ = 0;
  if (turn_ + 1 == group_.size()) return;
  for (size_t i = 0; i < values_.size(); ++i) {
    const int64_t row = values_[i].outer * values_[i].inner;
    under_way_.push_back(permute_start(rank_, group_, site_, place(i, turn_), row * rows_of(turn_), next_of(group_),
                                       values_[i].places[static_cast<size_t>((turn_ + 1) % 2)],
                                       row * rows_of(turn_ + 1), before(group_), type_));
  }
}

bool RingParts::next() {
  if (!is_last_stretch()) {
    row_ += stretches_[stretch_++].size();
    return true;
  }
  wait_for(rank_, under_way_);
  if (turn_ + 1 == group_.size()) return false;
  ++turn_;
  begin_turn();
  return true;
}

AttentionShape RingParts::shape(AttentionShape of_own) const {
  of_own.keys = keys().size();
  of_own.key_begin = keys().begin;
  of_own.adds = turn_ > 0 || stretch_ > 0;
  return of_own;
}

RingSums::RingSums(const RingParts& parts, Site site, std::vector<Circulating<3>> values)
    : parts_(parts), site_(site), values_(std::move(values)) {}

int64_t RingSums::count_of(const Circulating<3>& value, int turn) const {
  return value.outer * value.inner * parts_.rows_of(turn);
}

void RingSums::add(void* to, const void* more, int64_t count) const {
  const std::array<const std::byte*, 2> both = {static_cast<const std::byte*>(to), static_cast<const std::byte*>(more)};
  vector_ops().reduce(parts_.type_, Reduce::sum, static_cast<std::byte*>(to), both.data(), 2, count);
}

/// A part's sum begins with the member behind its owner, who has its own share at home; that of the next turn comes
/// while this rank computes what it adds to it.
void RingSums::next() {
  if (!parts_.is_last_stretch()) return;
  const Group& group = parts_.group_;
  const int turn = parts_.turn_;
  const bool comes = !under_way_.empty();
  wait_for(parts_.rank_, under_way_);
  if (turn == 0) return;
  for (Circulating<3>& value : values_) {
    auto& [added, came, sent] = value.places;
    if (comes) add(added, came, count_of(value, turn));
    under_way_.push_back(permute_start(parts_.rank_, group, site_, added, count_of(value, turn), next_of(group), came,
                                       count_of(value, turn + 1), before(group), parts_.type_));
    std::swap(added, sent);
  }
  if (turn + 1 < group.size()) return;
  wait_for(parts_.rank_, under_way_);
  for (const Circulating<3>& value : values_) add(value.own, value.places[1], count_of(value, 0));
}

}  // namespace meshrt
