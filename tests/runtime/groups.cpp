#include "groups.h"

#include <fmt/format.h>

#include <deque>
#include <stdexcept>

#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "require.h"

namespace meshrt::test {

namespace {

float sum_over(Rank& rank, const Group& group) {
  float data = static_cast<float>(rank.rank() + 1);
  all_reduce(rank, group, {1, "ranks"}, &data, 1, Type::f32, Reduce::sum);
  return data;
}

// Even and odd ranks, each in a group that the other half never asks for, so that ranks count their groups differently.
void halves(Rank& rank) {
  const Axis all{rank.ranks(), 1};
  std::vector<int> mine;
  float wanted = 0;
  for (int r = rank.rank() % 2; r < rank.ranks(); r += 2) {
    mine.push_back(r);
    wanted += static_cast<float>(r + 1);
  }
  if (rank.rank() % 2 == 0) rank.group(std::vector{Axis{1, 1}});
  const Group& half = rank.group(std::vector{all}, mine);
  require(half.members == mine, "the members of a group of some coordinates");
  require(sum_over(rank, half) == wanted, "a sum over half of the ranks");
  require(&rank.group(std::vector{all}, mine) == &half, "a group is made once");
  std::vector<int> others;
  for (int r = 1 - rank.rank() % 2; r < rank.ranks(); r += 2) others.push_back(r);
  require(&rank.group_or_alone(std::vector{all}, mine) == &half, "a group of some coordinates, asked for by all");
  if (others.empty()) return;
  require(rank.group_or_alone(std::vector{all}, others).members == std::vector{rank.rank()},
          "the group of a rank at other coordinates");
  try {
    rank.group(std::vector{all}, others);
  } catch (const Failure& failure) {
    require(std::string(failure.what()).find("to which it does not belong") != std::string::npos, failure.what());
    return;
  }
  throw std::runtime_error("a group without this rank was made");
}

// More groups than were once possible, each called; ranks ask for them in different orders.
void many(Rank& rank) {
  constexpr int count = 200;
  const auto axes_of = [&](int i) {  // the same ranks over axes that are all different
    std::vector<Axis> axes{{rank.ranks(), 1}};
    axes.resize(static_cast<size_t>(1 + i % 20), {1, 1});
    axes.push_back({1, 1 + i / 20});
    return axes;
  };
  for (int i = 0; i < count; ++i) rank.group(axes_of(rank.rank() % 2 ? i : count - 1 - i));
  const auto all = static_cast<float>(rank.ranks() * (rank.ranks() + 1) / 2);
  std::vector<float> data(count, static_cast<float>(rank.rank() + 1));
  std::vector<Ticket> tickets;
  for (int i = 0; i < count; ++i)
    tickets.push_back(all_reduce_start(rank, rank.group(axes_of(i)), {2, "many"}, &data[static_cast<size_t>(i)], 1,
                                       Type::f32, Reduce::sum));
  for (const Ticket ticket : tickets) wait(rank, ticket);
  for (const float sum : data) require(sum == all, "a sum over one of many groups");
}

// A pipeline: every rank sends `turns` values to the next one over a channel, far ahead of what that has asked for,
// while groups are called in between; and back over a second channel, in another order.
void pipeline(Rank& rank, int64_t count, bool in_arena) {
  constexpr int turns = 12;
  const int me = rank.rank(), last = rank.ranks() - 1;
  std::deque<std::vector<float>> own;
  size_t used = 0;
  const auto room = [&](int turn, int sender) {
    float* at = nullptr;
    if (in_arena) {
      at = reinterpret_cast<float*>(rank.arena()) + used;
      used += static_cast<size_t>(count);
    } else {
      at = own.emplace_back(count).data();
    }
    for (int64_t i = 0; i < count; ++i) at[i] = sender < 0 ? -1.0F : static_cast<float>(1000 * sender + turn + i % 7);
    return at;
  };
  std::vector<Ticket> tickets;
  struct Wanted {
    const float* at;
    int turn, sender;
  };
  std::vector<Wanted> wanted;
  const auto send = [&](const Channel& channel) {
    for (int turn = 0; turn < turns; ++turn)
      tickets.push_back(send_start(rank, channel, {3, "on"}, room(turn, me), count, Type::f32));
  };
  const auto receive = [&](const Channel& channel, int sender) {
    for (int turn = 0; turn < turns; ++turn) {
      float* const at = room(turn, -1);
      wanted.push_back({at, turn, sender});
      tickets.push_back(receive_start(rank, channel, {4, "from"}, at, count, Type::f32));
    }
  };
  if (me < last) send(rank.channel(me, me + 1));
  if (me < last) receive(rank.channel(me + 1, me, 1), me + 1);
  sum_over(rank, rank.group(std::vector<Axis>{{rank.ranks(), 1}}));
  if (me > 0) send(rank.channel(me, me - 1, 1));
  if (me > 0) receive(rank.channel(me - 1, me), me - 1);
  for (size_t i = tickets.size(); i-- > 0;) wait(rank, tickets[i]);
  for (const Wanted& value : wanted)
    for (int64_t i = 0; i < count; ++i)
      require(value.at[i] == static_cast<float>(1000 * value.sender + value.turn + i % 7),
              fmt::format("turn {} of what rank {} sends, of {} elements {}", value.turn, value.sender, count,
                          in_arena ? "in the arena" : "outside"));
}

}  // namespace

void run_groups(Rank& rank) {
  rank.allocate(size_t{32} << 20, 1 << 20);
  halves(rank);
  many(rank);
  for (const int64_t count : {1, 1000, 100000})
    for (const bool in_arena : {true, false}) pipeline(rank, count, in_arena);
}

}  // namespace meshrt::test
