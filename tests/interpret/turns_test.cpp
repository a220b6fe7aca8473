// Rings: what only the next turns of a loop need, in as many slots as those turns.
#include <gtest/gtest.h>

#include "tests/interpret/hand_made.h"

namespace mesh::tests {
namespace {

using F = MapFunction;

/// u(t + 2) = u(t + 1) + u(t) / 2 over `turns` turns, of which the last value is kept. With a ring of three slots, or a
/// slot for every turn and two to begin with.
struct Recurrence {
  HandMade made;
  BufferId begin, u, last;

  Recurrence(int64_t turns, int64_t slots) {
    const DimId time = made.dim("time", turns), ring = made.dim("ring", slots), a = made.dim("a", 20);
    begin = made.buffer("begin", Type::f64, {whole(made.dim("two", 2)), whole(a)});
    last = made.buffer("last", Type::f64, {whole(a)});
    u = made.buffer("u", Type::f64, {whole(ring), whole(a)});
    const LoopId loop = made.loop();
    for (int64_t i = 0; i < 2; ++i) {
      PassMaker first(made.program, {whole(a)});
      first.store(first.load(begin, {TurnIndex({}, i)}), u, {TurnIndex({}, i)});
      made.add(Nest{{}, {first.pass}, {}});
    }
    PassMaker pass(made.program, {whole(a)});
    const int half = pass.apply(F::multiply, {pass.load(u, {TurnIndex(loop, 0, slots)}), pass.literal(0.5, Type::f64)});
    pass.store(pass.apply(F::add, {pass.load(u, {TurnIndex(loop, 1, slots)}), half}), u, {TurnIndex(loop, 2, slots)});
    ForStep steps{loop, time, turns, false, {}};
    steps.body.push_back({Nest{{}, {pass.pass}, {}}, Part::forward, {}, "", {}});
    made.add(std::move(steps));
    made.add(CopyStep{{u, {TurnIndex({}, (turns + 1) % slots)}}, {last, {}}});
  }

  std::vector<double> result() {
    std::vector<double> values;
    made.run([&](const View& view) { fill_numbers(view.of<double>(begin), 3); },
             [&](const View& view) {
               const auto all = view.of<double>(last);
               values.assign(all.begin(), all.end());
             });
    return values;
  }
  int64_t slots_in_memory() const { return made.program.buffer(u).elements / 20; }
};

TEST(Turns, a_ring_holds_what_a_slot_for_each_turn_holds) {
  constexpr int64_t turns = 40;
  Recurrence stack(turns, turns + 2), ring(turns, 3);
  const std::vector<double> expected = stack.result();
  EXPECT_EQ(ring.result(), expected);
  double before = 0, now = 0;
  double numbers[40];
  fill_numbers(std::span<double>(numbers), 3);
  before = numbers[0], now = numbers[20];
  for (int64_t t = 0; t < turns; ++t) {
    const double next = now + before * 0.5;
    before = now, now = next;
  }
  EXPECT_EQ(expected[0], now);
  EXPECT_EQ(stack.slots_in_memory(), turns + 2);
  EXPECT_EQ(ring.slots_in_memory(), 3);
}

}  // namespace
}  // namespace mesh::tests
