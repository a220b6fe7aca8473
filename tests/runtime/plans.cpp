// Every kind of call, planned once, then run or started turn by turn on new data: the results of the same call
// unplanned.
#include "plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "meshrt/plan.h"

namespace meshrt::test {

namespace {

struct PlannedCall {
  const char* name;
  std::function<Plan(float* in, float* out)> plan;
  std::function<void(float* in, float* out)> call;
};

constexpr int64_t total = 6000, several = 70;  // more values than one call takes
constexpr Type f32 = Type::f32;
constexpr Reduce op = Reduce::sum;

/// The cases of one group; `begin` and `sides` stay as long as they.
std::vector<PlannedCall> cases(Rank& rank, const Group& group, std::span<const int64_t> begin,
                               std::span<const int64_t> sides) {
  const Site site{1, "planned"};
  const int me = group.index, k = group.size(), next = (me + 1) % k, before = (me + k - 1) % k;
  const Blocks blocks{1, begin, 1};
  const Exchange exchange{1, sides, 1, begin, 1, true};
  const Margins margins{1, 1, 2, 1, {Edge::Kind::clamp, 0}};
  const Redistribution dealt(group, {{2}, {960, {group.axes}, {group.axes, zigzag(k)}}, {3}});
  const auto wholes = [](float* in) {
    std::vector<Whole> all;
    for (int64_t i = 0; i < several; ++i) all.push_back({in + i * 10, 10});
    return all;
  };
  const auto scattered = [=](float* in, float* out) { return std::vector<Scattered>(2, {in, out, blocks}); };
  const auto gathered = [=](float* in, float* out) { return std::vector<Gathered>(2, {in, out, blocks}); };
  // Captures what it needs by value: references would be to this function.
#define CASE(name, ...)                                                                                                      \
  {                                                                                                                          \
#name, [=, &rank, &group](float* in, [[maybe_unused]] float* out) { return plan_##name(rank, group, site, __VA_ARGS__); }, \
   [=, &rank, &group](float* in, [[maybe_unused]] float* out) { name(rank, group, site, __VA_ARGS__); } \
  }
  return {CASE(all_reduce, in, 2, f32, op),
          CASE(all_reduce, in, total, f32, op),
          CASE(all_reduce, wholes(in), f32, op),
          CASE(reduce_scatter, in, out, blocks, f32, op),
          CASE(reduce_scatter, scattered(in, out), f32, op),
          CASE(all_gather, in, out, blocks, f32),
          CASE(all_gather, gathered(in, out), f32),
          CASE(all_to_all, in, out, exchange, f32),
          CASE(broadcast, in, total, f32, k - 1),
          CASE(permute, in, total, next, out, total, before, f32),
          CASE(exchange_margins, in, begin, margins, f32),
          CASE(redistribute, in, out, dealt, f32),
          {"barrier", [=, &rank, &group](float*, float*) { return plan_barrier(rank, group, site); },
           [=, &rank, &group](float*, float*) { barrier(rank, group, site); }}};
#undef CASE
}

void fill(float* at, int rank, int turn) {
  for (int64_t i = 0; i < total; ++i) at[i] = static_cast<float>((rank + 1) * 1000 + turn * 100 + i % 89);
}

}  // namespace

void run_plans(Rank& rank) {
  constexpr int64_t room = 3 * total;
  rank.allocate(static_cast<size_t>(4 * room) * sizeof(float), 4096);
  const Group& group = rank.group(std::vector<Axis>{{rank.ranks(), 1}});
  std::vector<int64_t> begin, sides;
  for (int m = 0; m <= rank.ranks(); ++m) {
    begin.push_back(part_begin(total - 3, m, rank.ranks()));
    sides.push_back(m);
  }
  auto* const data = reinterpret_cast<float*>(rank.arena());
  float *const in = data, *const out = data + room, *const plain_in = data + 2 * room,
               *const plain_out = data + 3 * room;
  for (const PlannedCall& one : cases(rank, group, begin, sides)) {
    std::fill_n(data, 4 * room, 0.0F);
    Plan plan = one.plan(in, out);
    try {
      plan.wait();
      throw std::runtime_error("a plan can be waited for that was never made");
    } catch (const std::logic_error&) {}
    for (int turn = 0; turn < 6; ++turn) {
      fill(in, rank.rank(), turn);
      fill(plain_in, rank.rank(), turn);
      if ((turn + rank.rank()) % 3 == 0) {
        plan.run();
      } else if ((turn + rank.rank()) % 3 == 1) {
        wait(rank, plan.start());
      } else {
        plan.start();
        plan.wait();
      }
      plan.wait();  // a second time, for nothing
      one.call(plain_in, plain_out);
      if (!std::equal(data, data + 2 * room, plain_in))
        throw std::runtime_error(fmt::format("{}, planned, in turn {}", one.name, turn));
    }
  }
}

}  // namespace meshrt::test
