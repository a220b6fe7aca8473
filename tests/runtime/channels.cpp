#include "channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "meshrt/channel.h"
#include "meshrt/failure.h"
#include "require.h"

namespace meshrt::test {

namespace {

constexpr int micro_batches = 8;

/// Buffers of one end, with room between them that nobody may touch: it is NaN.
class Room {
 public:
  Room(float* at, int64_t count, int number) : at_(at), count_(count), number_(number) {
    std::fill_n(at, size(count, number), nan);
  }
  static int64_t size(int64_t count, int number) { return gap + number * (count + gap); }
  ChannelBuffers buffers() const { return {at_ + gap, (count_ + gap) * static_cast<int64_t>(sizeof(float)), number_}; }
  float* of(int micro_batch) const { return at_ + gap + micro_batch % number_ * (count_ + gap); }
  bool untouched_between() const {
    for (int buffer = 0; buffer <= number_; ++buffer)
      for (int64_t i = 0; i < gap; ++i)
        if (!std::isnan(at_[buffer * (count_ + gap) + i])) return false;
    return true;
  }

 private:
  static constexpr int64_t gap = 5;
  static constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  float* at_;
  int64_t count_;
  int number_;
};

float value(int sender, int number, int step, int micro_batch, int64_t i) {
  return static_cast<float>(sender * 10000 + number * 5000 + step * 100 + micro_batch) + static_cast<float>(i % 7) / 8;
}

/// All micro-batches, those of a slot in their order.
std::vector<int> any_order(int slots, std::mt19937& random) {
  std::vector<int> next, order;
  for (int slot = 0; slot < std::min(slots, micro_batches); ++slot) next.push_back(slot);
  while (!next.empty()) {
    const auto chosen = next.begin() + static_cast<int64_t>(random() % next.size());
    order.push_back(*chosen);
    if ((*chosen += slots) >= micro_batches) next.erase(chosen);
  }
  return order;
}

struct Case {
  int64_t count;
  bool in_arena;
  int slots, received_ahead;  // buffers of the receiver
  std::string text() const {
    return fmt::format("{} values {}, {} slots, {} buffers", count, in_arena ? "in the arena" : "outside", slots,
                       received_ahead);
  }
};

/// Every rank sends to both of its neighbours in a ring, and receives from both, two steps long. What it computes in
/// between is a sum over all ranks.
void both_ways(Rank& rank, const Case& of, std::mt19937& random) {
  const int me = rank.rank(), right = (me + 1) % rank.ranks(), left = (me + rank.ranks() - 1) % rank.ranks();
  constexpr int sent_ahead = 2;
  const int64_t out_size = Room::size(of.count, sent_ahead), in_size = Room::size(of.count, of.received_ahead);
  std::vector<float> own(of.in_arena ? 0 : static_cast<size_t>(2 * (out_size + in_size)));
  float* const at = of.in_arena ? reinterpret_cast<float*>(rank.arena()) : own.data();
  const Room out[] = {{at, of.count, sent_ahead}, {at + out_size, of.count, sent_ahead}};
  const Room in[] = {{at + 2 * out_size, of.count, of.received_ahead},
                     {at + 2 * out_size + in_size, of.count, of.received_ahead}};
  const auto end = [&](int from, int to, int number, const Room& room) {
    return ChannelEnd(rank, {from, to, number, micro_batches, of.slots}, {3, "ring"}, room.buffers(), of.count,
                      Type::f32);
  };
  ChannelEnd sends[] = {end(me, right, 0, out[0]), end(me, left, 1, out[1])};
  ChannelEnd receives[] = {end(left, me, 0, in[0]), end(right, me, 1, in[1])};
  const int senders[] = {left, right};
  const Group& all = rank.group(std::vector<Axis>{{rank.ranks(), 1}});
  for (int step = 0; step < 2; ++step) {
    const auto take = [&](int number, int micro_batch) {
      receives[number].wait(micro_batch);
      const float* const got = in[number].of(micro_batch);
      for (int64_t i = 0; i < of.count; ++i)
        if (got[i] != value(senders[number], number, step, micro_batch, i))
          throw std::runtime_error(
              fmt::format("micro-batch {} from rank {} in step {}: {}", micro_batch, senders[number], step, of.text()));
    };
    const std::vector<int> orders[] = {any_order(of.slots, random), any_order(of.slots, random)};
    std::vector<int> posted[2];
    const auto post = [&](int number, int turn) {
      if (static_cast<int>(posted[number].size()) == of.received_ahead) {
        take(number, posted[number].front());
        posted[number].erase(posted[number].begin());
      }
      const int micro_batch = of.received_ahead < micro_batches ? turn : orders[number][static_cast<size_t>(turn)];
      receives[number].start(micro_batch);
      posted[number].push_back(micro_batch);
    };
    // Fewer buffers than micro-batches are taken in their order, and posted before what is sent meanwhile.
    const std::vector<int> sent =
        of.received_ahead < micro_batches ? any_order(1, random) : any_order(of.slots, random);
    if (of.received_ahead == micro_batches)
      for (int turn = 0; turn < micro_batches; ++turn) post(0, turn), post(1, turn);
    for (int turn = 0; turn < micro_batches; ++turn) {
      const int micro_batch = sent[static_cast<size_t>(turn)];
      for (const int number : {0, 1}) {
        if (of.received_ahead < micro_batches) post(number, turn);
        sends[number].make_room(micro_batch);
        for (int64_t i = 0; i < of.count; ++i) out[number].of(micro_batch)[i] = value(me, number, step, micro_batch, i);
        sends[number].start(micro_batch);
      }
      float ranks = 1;
      if (turn == 3) all_reduce(rank, all, {4, "ranks"}, &ranks, 1, Type::f32, Reduce::sum);
      require(turn != 3 || ranks == static_cast<float>(rank.ranks()), "a sum between messages");
    }
    for (const int number : {1, 0})
      for (const int micro_batch : posted[number]) take(number, micro_batch);
    for (ChannelEnd& one : sends) one.finish();
    for (const int number : {0, 1})
      require(out[number].untouched_between() && in[number].untouched_between(),
              "memory between buffers: " + of.text());
  }
}

/// However short the message is, its send is not over before its receive is posted.
void ends_after_its_receive(Rank& rank) {
  const Group& all = rank.group(std::vector<Axis>{{rank.ranks(), 1}});
  float data = static_cast<float>(rank.rank());
  const auto meet = [&] { barrier(rank, all, {5, "meet"}); };
  if (rank.rank() > 1) return meet();
  ChannelEnd end(rank, {0, 1, 5, 1}, {6, "one"}, {&data, 4, 1}, 1, Type::f32);
  if (rank.rank() == 0) {
    data = 17;
    end.start(0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < until) require(!end.finished(0), "a send that nobody receives is over");
    meet();
  } else {
    meet();
    end.start(0);
  }
  end.wait(0);
  end.wait(0);
  require(end.finished(0) && data == 17, "a message of one value");
}

void refuses(const std::string& what, const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& failure) {
    require(failure.cause == Cause::usage && std::string(failure.what()).find(what) != std::string::npos,
            failure.what());
    return;
  }
  throw std::runtime_error("not refused: " + what);
}

void wrong_use(Rank& rank) {
  float data[2] = {1, 2};
  const auto made = [&](int number, int count, int slots, int buffers) {
    ChannelEnd(rank, {0, 1, number, count, slots}, {7, "wrong"}, {data, 4, buffers}, 1, Type::f32);
  };
  if (rank.rank() > 1) return refuses("asks for a channel from rank 0 to rank 1", [&] { made(0, 1, 1, 1); });
  refuses("for 1 micro-batches with 0 slots", [&] { made(0, 1, 0, 1); });
  refuses("with 1 slots and 0 buffers", [&] { made(0, 1, 1, 0); });
  refuses("channel 4096", [&] { made(4096, 1, 1, 1); });
  ChannelEnd end(rank, {0, 1, 6, 2}, {7, "wrong"}, {data, 4, 1}, 1, Type::f32);
  if (rank.rank() == 1) {
    end.start(0);
    refuses("receive of micro-batch 1 of 'wrong' (1 x f32) at site 7 needs the buffer of micro-batch 0",
            [&] { end.start(1); });
    barrier(rank, *rank.channel(0, 1, 7).group, {8, "wrong"});
  } else {
    barrier(rank, *rank.channel(0, 1, 7).group, {8, "wrong"});
    end.start(0);
  }
  end.wait(0);
}

}  // namespace

void run_channels(Rank& rank) {
  rank.allocate(size_t{32} << 20, 1 << 20);
  if (rank.ranks() == 1) return refuses("a channel from rank 0 to rank 0", [&] { rank.channel(0, 0); });
  std::mt19937 random(static_cast<unsigned>(rank.rank()));
  for (const int64_t count : {1, 100000})
    for (const bool in_arena : {true, false})
      for (const auto& [slots, buffers] : {std::pair{1, 8}, {3, 8}, {8, 8}, {1, 2}})
        both_ways(rank, {count, in_arena, slots, buffers}, random);
  ends_after_its_receive(rank);
  wrong_use(rank);
}

}  // namespace meshrt::test
