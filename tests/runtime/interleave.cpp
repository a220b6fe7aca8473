#include "interleave.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>
#include <stdexcept>

#include "meshrt/collectives.h"
#include "oracle.h"
#include "transport/transport.h"

namespace meshrt::test {

namespace {

constexpr Type type = Type::f32;
constexpr int64_t number = sizeof(float);

Bytes slice(const Bytes& bytes, int64_t begin, int64_t end) {
  return {bytes.begin() + begin * number, bytes.begin() + end * number};
}

void append(Bytes& bytes, const Bytes& more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

/// One call under way, and what must be there afterwards.
struct Started {
  Ticket ticket;
  std::vector<int64_t> begin;  // the parts of all members
  struct Result {
    const std::byte* at;
    Bytes wanted;
  };
  std::vector<Result> results;
  std::string what;
};

/// The calls of one group, equal on all its members.
class Lane {
 public:
  Lane(Rank& rank, const Group& group, uint64_t seed, std::byte* arena, std::mt19937_64& dice)
      : rank_(rank), group_(group), seed_(seed), arena_(arena), dice_(dice) {}

  static constexpr size_t arena_bytes = size_t{4} << 20;
  const Group& group() const { return group_; }

  /// A round is some calls, as many on all members; nothing is under way before it.
  void begin_round() {
    used_ = 0;
    own_.clear();
    left_ = static_cast<int>(random_of(seed_, next_) % 10);
  }
  bool has_more() const { return left_ > 0; }
  bool is_under_way() const { return !under_way_.empty(); }
  /// Starts the next call of the round, or asks whether one is finished.
  void start_or_ask() {
    if (dice_() % 3 == 0 && is_under_way()) return check_one(false);
    --left_;
    start();
  }
  /// Checks one of those under way, when it is finished, or after waiting for it.
  void check_one(bool waits) {
    const size_t which = dice_() % under_way_.size();
    Started& one = under_way_[which];
    if (waits) wait(rank_, one.ticket);
    else if (!finished(rank_, one.ticket)) return;
    for (const Started::Result& result : one.results)
      if (!std::equal(result.wanted.begin(), result.wanted.end(), result.at))
        throw std::runtime_error(fmt::format("{} in a group of {}", one.what, group_.size()));
    under_way_.erase(under_way_.begin() + static_cast<int64_t>(which));
  }

 private:
  int members() const { return group_.size(); }
  int me() const { return group_.index; }

  // In the arena or outside, whatever the other members do.
  std::byte* room(int64_t bytes) {
    const auto rounded = static_cast<size_t>((bytes + 64) / 64 * 64);
    if (dice_() % 2 && used_ + rounded <= arena_bytes) {
      used_ += rounded;
      return arena_ + used_ - rounded;
    }
    return own_.emplace_back(rounded).data();
  }
  std::byte* room(const Bytes& content) {
    std::byte* const at = room(static_cast<int64_t>(content.size()));
    std::ranges::copy(content, at);
    return at;
  }
  Bytes of(int member, int64_t count, uint64_t salt) const {
    return contribution(type, count, group_.members[member], salt);
  }
  Bytes sum(int64_t count, uint64_t salt) const {
    std::vector<Bytes> all;
    for (int m = 0; m < members(); ++m) all.push_back(of(m, count, salt));
    return reduce_oracle(type, Reduce::sum, all);
  }

  void start() {
    const uint64_t call = next_++, salt = seed_ + 100 * call;
    constexpr int64_t counts[] = {3, 200, 5000, 70000};
    const int64_t count = counts[random_of(salt, 1) % 4];
    Started& one = under_way_.emplace_back();
    for (int m = 0; m <= members(); ++m) one.begin.push_back(part_begin(count, m, members()));
    const int kind = static_cast<int>(random_of(salt, 2) % 10);
    one.what = fmt::format("call {}, of kind {} and {} elements", call, kind, count);
    start(one, kind, count, salt);
  }

  void start(Started& one, int kind, int64_t count, uint64_t salt) {
    const int64_t first = one.begin[me()], last = one.begin[me() + 1];
    const Blocks blocks{1, one.begin, 1};
    const Site site{static_cast<int32_t>(kind), "lane"};
    const auto give = [&](const std::byte* at, Bytes wanted) { one.results.push_back({at, std::move(wanted)}); };
    const auto gathered = [&](uint64_t of_salt) {
      Bytes whole;
      for (int m = 0; m < members(); ++m) append(whole, of(m, one.begin[m + 1] - one.begin[m], of_salt));
      return whole;
    };
    switch (kind) {
      case 0: {
        std::byte* const data = room(of(me(), count, salt));
        give(data, sum(count, salt));
        one.ticket = all_reduce_start(rank_, group_, site, data, count, type, Reduce::sum);
        return;
      }
      case 1: {
        std::vector<Whole> values;
        for (uint64_t i = 0; i < 3; ++i) {
          values.push_back(
              {room(of(me(), count + static_cast<int64_t>(i), salt + i)), count + static_cast<int64_t>(i)});
          give(static_cast<std::byte*>(values.back().data), sum(values.back().count, salt + i));
        }
        one.ticket = all_reduce_start(rank_, group_, site, values, type, Reduce::sum);
        return;
      }
      case 2: {
        const std::byte* const whole = room(of(me(), count, salt));
        std::byte* const part = room((last - first) * number);
        give(part, slice(sum(count, salt), first, last));
        one.ticket = reduce_scatter_start(rank_, group_, site, whole, part, blocks, type, Reduce::sum);
        return;
      }
      case 3: {
        std::vector<Scattered> values;
        for (uint64_t i = 0; i < 3; ++i) {
          values.push_back({room(of(me(), count, salt + i)), room((last - first) * number), blocks});
          give(static_cast<std::byte*>(values.back().part), slice(sum(count, salt + i), first, last));
        }
        one.ticket = reduce_scatter_start(rank_, group_, site, values, type, Reduce::sum);
        return;
      }
      case 4: {
        const std::byte* const part = room(of(me(), last - first, salt));
        std::byte* const whole = room(count * number);
        give(whole, gathered(salt));
        one.ticket = all_gather_start(rank_, group_, site, part, whole, blocks, type);
        return;
      }
      case 5: {
        std::vector<Gathered> values;
        for (uint64_t i = 0; i < 3; ++i) {
          values.push_back({room(of(me(), last - first, salt + i)), room(count * number), blocks});
          give(static_cast<std::byte*>(values.back().whole), gathered(salt + i));
        }
        one.ticket = all_gather_start(rank_, group_, site, values, type);
        return;
      }
      case 6: {  // a row of `count` each, to the own columns of all rows
        std::vector<int64_t>& begin = one.begin;
        for (int m = 0; m <= members(); ++m) begin.push_back(m);
        const auto parts = std::span<const int64_t>(begin);
        const size_t sides = static_cast<size_t>(members()) + 1;
        Bytes columns;
        for (int m = 0; m < members(); ++m) append(columns, slice(of(m, count, salt), first, last));
        const std::byte* const row = room(of(me(), count, salt));
        std::byte* const to = room(static_cast<int64_t>(columns.size()));
        give(to, std::move(columns));
        const Exchange exchange{1, parts.subspan(sides), 1, parts.first(sides), 1, true};
        one.ticket = all_to_all_start(rank_, group_, site, row, to, exchange, type);
        return;
      }
      case 7: {
        const int root = static_cast<int>(salt % static_cast<uint64_t>(members()));
        std::byte* const data = room(of(me(), count, salt));
        give(data, of(root, count, salt));
        one.ticket = broadcast_start(rank_, group_, site, data, count, type, root);
        return;
      }
      case 8: {
        const int shift = static_cast<int>(salt / 100 % static_cast<uint64_t>(members()));
        const int to = (me() + shift) % members(), from = (me() + members() - shift) % members();
        const std::byte* const send = room(of(me(), count, salt));
        std::byte* const receive = room(count * number);
        give(receive, of(from, count, salt));
        one.ticket = permute_start(rank_, group_, site, send, count, to, receive, count, from, type);
        return;
      }
      default: {  // a row more on either side
        const Bytes whole = contribution(type, count, 0, salt);
        const int64_t own = last - first;
        Bytes mine(static_cast<size_t>((own + 2) * number)), wanted = mine;
        std::ranges::copy(slice(whole, first, last), mine.begin() + number);
        for (int64_t r = 0; r < own + 2; ++r) {
          const int64_t there = first - 1 + r, row = std::clamp<int64_t>(there, 0, count - 1);
          if (own > 0 || there == row) std::ranges::copy(slice(whole, row, row + 1), wanted.begin() + r * number);
        }
        std::byte* const data = room(mine);
        give(data, std::move(wanted));
        one.ticket =
            exchange_margins_start(rank_, group_, site, data, one.begin, {1, 1, 1, 1, {Edge::Kind::clamp, 0}}, type);
      }
    }
  }

  Rank& rank_;
  const Group& group_;
  uint64_t seed_, next_ = 0;
  int left_ = 0;
  std::byte* arena_;
  size_t used_ = 0;
  std::mt19937_64& dice_;
  std::deque<Bytes> own_;
  std::deque<Started> under_way_;
};

void run_interleaved(Rank& rank, std::byte* arena, uint64_t seed) {
  std::mt19937_64 dice(seed * 1000 + static_cast<uint64_t>(rank.rank()));
  const int all = rank.ranks(), fast = all % 2 == 0 ? 2 : 1;
  const Axis row{fast, 1}, column{all / fast, fast};
  std::deque<Lane> lanes;
  for (const std::vector<Axis>& axes : {std::vector{row}, {column}, {row, column}, {Axis{all, 1}}}) {
    const uint64_t number = lanes.size();
    const Group& group = rank.group(axes);
    if (std::ranges::any_of(lanes, [&](const Lane& lane) { return &lane.group() == &group; })) continue;
    lanes.emplace_back(rank, group, seed * 1000000 + number * 10000, arena + number * Lane::arena_bytes, dice);
  }
  // A rank may only wait when it has started all that others wait for before they start what it waits for.
  const auto one_of = [&](bool (Lane::*is_one)() const) -> Lane* {
    std::vector<Lane*> found;
    for (Lane& lane : lanes)
      if ((lane.*is_one)()) found.push_back(&lane);
    return found.empty() ? nullptr : found[dice() % found.size()];
  };
  for (int round = 0; round < 8; ++round) {
    for (Lane& lane : lanes) lane.begin_round();
    while (Lane* const lane = one_of(&Lane::has_more)) {
      lane->start_or_ask();
      if (dice() % 3 == 0) poll();
    }
    while (Lane* const lane = one_of(&Lane::is_under_way)) lane->check_one(true);
  }
}

}  // namespace

void run_interleaved(Rank& rank) {
  rank.allocate(4 * Lane::arena_bytes, 1 << 20);
  for (uint64_t seed = 1; seed <= 3; ++seed) run_interleaved(rank, rank.arena(), seed);
}

void run_beside(Rank& rank) {
  constexpr int64_t most = int64_t{1} << 20;
  constexpr auto patience = std::chrono::seconds(20);
  rank.allocate(2 * most * number, 0);
  const Group& group = rank.group(std::vector<Axis>{{rank.ranks(), 1}});
  auto* const data = reinterpret_cast<float*>(rank.arena());
  for (const int64_t count : {int64_t{1}, int64_t{3000}, int64_t{300'000}, most}) {
    std::fill_n(data, 2 * most, 1.0F);
    const Ticket one = all_reduce_start(rank, group, {1, "one"}, data, count, type, Reduce::sum);
    const Ticket two = all_reduce_start(rank, group, {2, "two"}, data + most, count, type, Reduce::max);
    const auto end = std::chrono::steady_clock::now() + patience;
    const Transport& transport = rank.transport();
    while (!transport.finished(one) || !transport.finished(two))
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error(fmt::format("nobody moves a call of {} elements along", count));
    const auto is_wrong = [&](float x) { return x != static_cast<float>(rank.ranks()); };
    if (std::any_of(data, data + count, is_wrong) || data[most + count - 1] != 1)
      throw std::runtime_error(fmt::format("a wrong result of {} elements", count));
    barrier(rank, group, {3, "all have looked"});
  }
}

}  // namespace meshrt::test
