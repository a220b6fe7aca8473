#include "misbehave.h"

#include <stdexcept>

#include "meshrt/channel.h"

namespace meshrt::test {

const std::vector<Misbehaviour>& misbehaviours() {
  static const std::vector<Misbehaviour> all = {
      {"count",
       {"diverge at call 4", "all_reduce of 'loss' (5000 x f32, sum) at site 7",
        "all_reduce of 'loss' (4999 x f32, sum)"}},
      {"long count", {"all_reduce of 'loss' (262144 x f32, sum)", "all_reduce of 'loss' (150000 x f32, sum)"}},
      {"one long count", {"all_reduce of 'loss' (262144 x f32, sum)", "all_reduce of 'loss' (12000 x f32, sum)"}},
      {"small count", {"all_reduce of 'loss' (2 x f32, sum)", "all_reduce of 'loss' (1 x f32, sum)"}},
      {"kind", {"all_reduce of 'loss' (5000 x f32, sum)", "all_gather of 'weight' (10 x f32) at site 8"}},
      {"type", {"5000 x f32", "5000 x i32"}},
      {"reduce", {"5000 x f32, sum", "5000 x f32, max"}},
      {"site", {"'loss' (5000 x f32, sum) at site 7", "'other' (5000 x f32, sum) at site 9"}},
      {"root", {"broadcast of 'seed'", "their roots differ"}},
      {"parts", {"all_gather of 'weight'", "their parts differ"}},
      {"permute count", {"permute of 'edge' (100 x f32)", "permute of 'edge' (99 x f32)"}},
      {"barrier", {"barrier", "all_reduce of 'loss'"}},
      {"ends", {"has ended without"}},
      {"started", {"diverge at call 4", "all_to_all of 'loss'", "all_reduce of 'loss' (5000 x f32, sum)"}},
      {"circle", {"diverge", "all_reduce of 'pair' (1 x f32, sum) at site 6", "barrier of 'end' at site 5"}, true},
      {"some coordinates", {"of the group of ranks 0", "'half' (2 x f32, sum)", "'half' (1 x f32, sum)"}},
      {"channel count",
       {"diverge at call 1 in slot 0 of channel 0 from rank 0 to rank 1", "send of 'sent' (10 x f32)",
        "receive of 'sent' (9 x f32)"}},
      {"channel ends", {"has ended without", "send of 'sent'"}},
      {"channel order",
       {"in slot 0 of channel 2 from rank 0 to rank 1", "send of micro-batch 1 of 'sent' (10 x f32)",
        "receive of micro-batch 0 of 'sent' (10 x f32)"}},
      {"channel slots", {"with 2 slots", "with 1 slots", "micro-batch 0 of 'sent'"}},
  };
  return all;
}

int misbehave(Rank& rank, const std::string& name) {
  const int ranks = rank.ranks();
  const Group& group = rank.group(std::vector<Axis>{{ranks, 1}});
  const bool odd = rank.rank() == ranks - 1;
  std::vector<float> data(262144), other(20000);
  const auto sum = [&](int64_t count, Type type = Type::f32, Reduce reduce = Reduce::sum, Site site = {7, "loss"}) {
    all_reduce(rank, group, site, data.data(), count, type, reduce);
  };
  const auto gather = [&](int64_t extent, int64_t shift) {
    std::vector<int64_t> begin{0};
    for (int m = 1; m < ranks; ++m) begin.push_back(part_begin(extent, m, ranks) + shift);
    begin.push_back(extent);
    all_gather(rank, group, {8, "weight"}, data.data(), other.data(), {1, begin, 1}, Type::f32);
  };
  for (int i = 0; i < 3; ++i) sum(i == 1 ? 6000 : 3);

  if (name == "count") sum(odd ? 4999 : 5000);
  else if (name == "long count") sum(odd ? 150000 : 262144);
  else if (name == "one long count") sum(odd ? 12000 : 262144);
  else if (name == "small count") sum(odd ? 1 : 2);
  else if (name == "kind") odd ? gather(10, 0) : sum(5000);
  else if (name == "type") sum(5000, odd ? Type::i32 : Type::f32);
  else if (name == "reduce") sum(5000, Type::f32, odd ? Reduce::max : Reduce::sum);
  else if (name == "site") sum(5000, Type::f32, Reduce::sum, odd ? Site{9, "other"} : Site{7, "loss"});
  else if (name == "root") broadcast(rank, group, {3, "seed"}, data.data(), 100, Type::f32, odd ? 0 : 1);
  else if (name == "parts") gather(1000, odd ? 1 : 0);
  else if (name == "permute count") {
    const int to = (group.index + 1) % ranks, from = (group.index + ranks - 1) % ranks;
    permute(rank, group, {4, "edge"}, data.data(), odd ? 99 : 100, to, other.data(), 100, from, Type::f32);
  } else if (name == "barrier") odd ? barrier(rank, group, {5, "end"}) : sum(5000);
  else if (name == "ends") odd ? void() : sum(5000);
  else if (name == "started") {
    std::vector<int64_t> parts, sides;
    for (int m = 0; m <= ranks; ++m) parts.push_back(part_begin(100, m, ranks)), sides.push_back(m);
    const Ticket ticket = odd ? all_to_all_start(rank, group, {7, "loss"}, data.data(), other.data(),
                                                 {1, sides, 1, parts, 1, true}, Type::f32)
                              : all_reduce_start(rank, group, {7, "loss"}, data.data(), 5000, Type::f32, Reduce::sum);
    while (!finished(rank, ticket)) poll();
  } else if (name == "some coordinates") {
    if (rank.rank() != 0 && !odd) return 0;
    const Group& half = rank.group(std::vector<Axis>{{ranks, 1}}, std::vector<int>{0, ranks - 1});
    all_reduce(rank, half, {6, "half"}, data.data(), odd ? 1 : 2, Type::f32, Reduce::sum);
  } else if (name == "circle") {  // rank 1 leaves out what is last before the barrier of all
    const auto pair = [&]() -> const Group& {
      return rank.group(std::vector<Axis>{{ranks, 1}}, std::vector<int>{0, 1});
    };
    if (rank.rank() == 0) all_reduce(rank, pair(), {6, "pair"}, data.data(), 1, Type::f32, Reduce::sum);
    barrier(rank, group, {5, "end"});
  } else if (name == "channel count" || name == "channel ends") {
    if (rank.rank() > 1) return 0;
    const Channel channel = rank.channel(0, 1);
    const bool ends = name == "channel ends";
    if (rank.rank() == 0) wait(rank, send_start(rank, channel, {6, "sent"}, data.data(), 10, Type::f32));
    else if (!ends) wait(rank, receive_start(rank, channel, {6, "sent"}, data.data(), 9, Type::f32));
  } else if (name == "channel order" || name == "channel slots") {
    if (rank.rank() > 1) return 0;
    const bool sends = rank.rank() == 0, order = name == "channel order";
    ChannelEnd end(rank, {0, 1, 2, 2, !order && sends ? 2 : 1}, {6, "sent"}, {data.data(), 40, 2}, 10, Type::f32);
    const int micro_batch = order && sends ? 1 : 0;
    end.start(micro_batch);
    end.wait(micro_batch);
  } else throw std::runtime_error("unknown misbehaviour " + name);
  return 0;
}

}  // namespace meshrt::test
