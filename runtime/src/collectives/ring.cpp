#include "meshrt/ring.h"

#include <numeric>
#include <utility>

#include "collectives/vector_ops.h"

namespace meshrt {
namespace {

/// The member so many before this one.
int before(const Group& group, int distance) { return (group.index - distance + 2 * group.size()) % group.size(); }

/// By turn; behind the last one all parts are as good as at home again.
std::vector<int> distances(int members, std::vector<int> meets) {
  if (meets.empty()) {
    meets.resize(static_cast<size_t>(members - 1));
    std::iota(meets.begin(), meets.end(), 1);
  }
  meets.insert(meets.begin(), 0);
  meets.push_back(members);
  return meets;
}

void wait_for(Rank& rank, std::vector<Ticket>& tickets) {
  for (const Ticket ticket : tickets) wait(rank, ticket);
  tickets.clear();
}

}  // namespace

RingParts::RingParts(Rank& rank, const Group& group, Site site, std::span<const int64_t> begin,
                     std::vector<Circulating<2>> values, Type type, const Deal& deal, std::vector<int> meets)
    : rank_(rank),
      group_(group),
      site_(site),
      begin_(begin),
      values_(std::move(values)),
      type_(type),
      deal_(deal),
      distance_(distances(group.size(), std::move(meets))) {
  begin_turn();
}

int64_t RingParts::rows_of(size_t turn) const {
  const auto part = static_cast<size_t>(before(group_, distance_[turn]));
  return begin_[part + 1] - begin_[part];
}

/// To which the part at hand goes, and from which that of the next turn comes.
int RingParts::next_member() const { return before(group_, distance_[turn_] - distance_[turn_ + 1]); }
int RingParts::member_before() const { return before(group_, distance_[turn_ + 1] - distance_[turn_]); }

const void* RingParts::place(size_t value, size_t turn) const {
  return turn == 0 ? values_[value].own : values_[value].places[turn % 2];
}

/// The part at hand goes to the next member while it is worked on, and that of the next turn comes from the one before.
void RingParts::begin_turn() {
  const auto part = static_cast<size_t>(before(group_, distance_[turn_]));
  stretches_ = ranges_at(begin_.back(), deal_, begin_[part], begin_[part + 1]);
  if (stretches_.empty()) stretches_.emplace_back();
  stretch_ = 0;
  row_ = 0;
  if (is_last_turn()) return;
  for (size_t i = 0; i < values_.size(); ++i) {
    const int64_t row = values_[i].outer * values_[i].inner;
    under_way_.push_back(permute_start(rank_, group_, site_, place(i, turn_), row * rows_of(turn_), next_member(),
                                       values_[i].places[(turn_ + 1) % 2], row * rows_of(turn_ + 1), member_before(),
                                       type_));
  }
}

bool RingParts::next() {
  if (!is_last_stretch()) {
    row_ += stretches_[stretch_++].size();
    return true;
  }
  wait_for(rank_, under_way_);
  if (is_last_turn()) return false;
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

RingSums::RingSums(const RingParts& parts, Site site, std::vector<Circulating<3>> values, Type type)
    : parts_(parts), site_(site), values_(std::move(values)), type_(type) {}

int64_t RingSums::count_of(const Circulating<3>& value, size_t turn) const {
  return value.outer * value.inner * parts_.rows_of(turn);
}

void RingSums::add(void* to, const void* more, int64_t count) const {
  const std::array<const std::byte*, 2> both = {static_cast<const std::byte*>(to), static_cast<const std::byte*>(more)};
  vector_ops().reduce(type_, Reduce::sum, static_cast<std::byte*>(to), both.data(), 2, count);
}

/// A part's sum begins with the first member that meets it, its owner has its own share at home; that of the next turn
/// comes while this rank computes what it adds to it, and from the last member that meets it it goes home.
void RingSums::next() {
  if (!parts_.is_last_stretch()) return;
  const size_t turn = parts_.turn_;
  const bool comes = !under_way_.empty();
  wait_for(parts_.rank_, under_way_);
  if (turn == 0) return;
  for (Circulating<3>& value : values_) {
    auto& [added, came, sent] = value.places;
    if (comes) add(added, came, count_of(value, turn));
    under_way_.push_back(permute_start(parts_.rank_, parts_.group_, site_, added, count_of(value, turn),
                                       parts_.next_member(), came, count_of(value, turn + 1), parts_.member_before(),
                                       type_));
    std::swap(added, sent);
  }
  if (!parts_.is_last_turn()) return;
  wait_for(parts_.rank_, under_way_);
  for (const Circulating<3>& value : values_) add(value.own, value.places[1], count_of(value, 0));
}

}  // namespace meshrt
