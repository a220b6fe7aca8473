// What a member of a group does in one call grows with the size of the group, not with its square. Counted in calls of
// functions, not in time: the sources of the collectives are compiled into this test once more, with a call of
// __cyg_profile_func_enter at the begin of every function, inlined ones included (-finstrument-functions; meson.build
// leaves out what runs as often as a wait lasts).
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "meshrt/collectives.h"
#include "meshrt/launch.h"

namespace {

thread_local int64_t functions_entered = 0;

}  // namespace

extern "C" {
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void*, void*) { ++functions_entered; }
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void*, void*) {}
}

namespace meshrt::test {

namespace {

constexpr int64_t total = 4096;  // elements of a value, whatever the group

/// What one call works on, of a member of a group of `ranks`.
struct Setting {
  Rank& rank;
  const Group& group;
  std::vector<int64_t> begin, sides;
  float* from;
  float* to;
  Blocks blocks() const { return {1, begin, 1}; }
};

using Body = std::function<void(Setting&)>;

/// Functions that member 0 enters in one call, in a group of `ranks` threads.
int64_t work_of(int ranks, bool in_arena, const Body& body) {
  int64_t entered = 0;
  const int code = launch_threads(ranks, [&](Rank& rank) {
    constexpr size_t bytes = 4 * total * sizeof(float);
    rank.allocate(in_arena ? bytes : 4096, in_arena ? 4096 : bytes);
    auto* data = reinterpret_cast<float*>(in_arena ? rank.arena() : rank.own());
    Setting setting{rank, rank.group(std::vector<Axis>{{ranks, 1}}), {}, {}, data, data + 2 * total};
    for (int m = 0; m <= ranks; ++m) {
      setting.begin.push_back(part_begin(total, m, ranks));
      setting.sides.push_back(m);
    }
    body(setting);  // what is kept for later calls is there now
    functions_entered = 0;
    body(setting);
    if (rank.rank() == 0) entered = functions_entered;
    return 0;
  });
  EXPECT_EQ(code, 0);
  return entered;
}

struct Case {
  const char* name;
  Body body;
};

constexpr size_t several = 32;

std::vector<Case> cases() {
  return {
      {"all_reduce", [](Setting& s) { all_reduce(s.rank, s.group, {}, s.from, total, Type::f32, Reduce::sum); }},
      {"small_all_reduce", [](Setting& s) { all_reduce(s.rank, s.group, {}, s.from, 16, Type::f32, Reduce::sum); }},
      {"reduce_scatter",
       [](Setting& s) { reduce_scatter(s.rank, s.group, {}, s.from, s.to, s.blocks(), Type::f32, Reduce::sum); }},
      {"all_gather", [](Setting& s) { all_gather(s.rank, s.group, {}, s.from, s.to, s.blocks(), Type::f32); }},
      {"reduce_scatter_of_several",
       [](Setting& s) {
         const std::vector<Scattered> values(several, {s.from, s.to, s.blocks()});
         reduce_scatter(s.rank, s.group, {}, values, Type::f32, Reduce::sum);
       }},
      {"all_gather_of_several",
       [](Setting& s) {
         const std::vector<Gathered> values(several, {s.from, s.to, s.blocks()});
         all_gather(s.rank, s.group, {}, values, Type::f32);
       }},
      {"all_to_all",
       [](Setting& s) {
         const Exchange exchange{1, s.sides, 1, s.sides, 1, true};
         all_to_all(s.rank, s.group, {}, s.from, s.to, exchange, Type::f32);
       }},
      {"broadcast", [](Setting& s) { broadcast(s.rank, s.group, {}, s.from, total, Type::f32, 1); }},
      {"permute",
       [](Setting& s) {
         const int k = s.group.size(), me = s.group.index;
         permute(s.rank, s.group, {}, s.from, 16, (me + 1) % k, s.to, 16, (me + k - 1) % k, Type::f32);
       }},
      {"margins",
       [](Setting& s) {
         exchange_margins(s.rank, s.group, {}, s.from, s.sides, {1, 1, 3, 3, {Edge::Kind::clamp, 0}}, Type::f32);
       }},
      {"margins_around",
       [](Setting& s) {
         exchange_margins(s.rank, s.group, {}, s.from, s.sides, {1, 1, 3, 3, {Edge::Kind::wrap, 0}}, Type::f32);
       }},
      {"barrier", [](Setting& s) { barrier(s.rank, s.group, {}); }},
  };
}

class Work : public testing::TestWithParam<size_t> {};

TEST_P(Work, GrowsWithTheGroup) {
  const Case one = cases()[GetParam()];
  for (const bool in_arena : {true, false}) {
    const int64_t of_16 = work_of(16, in_arena, one.body), of_32 = work_of(32, in_arena, one.body);
    EXPECT_GT(of_16, 16);  // the counter counts
    // Twice, where all of the work grows so; four times, where it grew with the square. A tenth more for what depends
    // on the digits of the sizes.
    EXPECT_LE(of_32, 2.2 * static_cast<double>(of_16)) << (in_arena ? "in the arena" : "in private memory");
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, Work, testing::Range<size_t>(0, cases().size()),
                         [](const auto& info) { return std::string(cases()[info.param].name); });

}  // namespace

}  // namespace meshrt::test
