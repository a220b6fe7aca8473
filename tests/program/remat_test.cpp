// What gradients compute again: the same numbers to the bit, in less memory.
#include <gtest/gtest.h>

#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

CompileRequest remade(const std::string& layout) {
  CompileRequest request;
  request.files = {REMAT};
  request.layout = layout;
  request.wanted = {"every", "layer.kept", "grad(scale)", "grad(layer.w)", "grad(layer.v)", "grad_norm"};
  return request;
}

TEST(Remat, equals_one_rank) {
  for (const char* layout : {"turns", "pairs", "thirds", "all", "value", "values", "cut", "apart", "split"}) {
    CompileRequest request = remade(layout);
    request.precision = "f64";
    tests::expect_as_one_rank(request, layout);
  }
}

/// Random numbers too are those of the first time. (Groups add up the gradient of what all turns share one by one.)
TEST(Remat, changes_no_bit) {
  const InterpretResult plain = tests::run(tests::compiled(remade("plain")).program);
  for (const char* layout : {"pairs", "all"})
    tests::expect_equal(plain, tests::run(tests::compiled(remade(layout)).program), layout);
  for (const char* layout : {"turns", "value", "values"}) {
    const InterpretResult again = tests::run(tests::compiled(remade(layout)).program);
    for (const auto& [name, array] : plain.after) EXPECT_EQ(array.data, again.after.at(name).data) << layout << name;
    for (const auto& [name, array] : plain.wanted) EXPECT_EQ(array.data, again.wanted.at(name).data) << layout << name;
    EXPECT_EQ(plain.metrics, again.metrics) << layout;
  }
}

/// By what a turn keeps: two wide values, one of them, none; of groups what came into each, and one group's inside.
TEST(Remat, takes_less_memory) {
  const auto peak = [](const char* layout) {
    CompileRequest request = remade(layout);
    request.set = {{"batch", "1200"}, {"layer", "36"}};
    request.wanted = {};
    const MemoryPlan memory = tests::compiled(request).program.memory;
    return memory.arena + memory.own;
  };
  const int64_t narrow = 600 * 4 * sizeof(float), wide = 600 * 24 * sizeof(float);
  const int64_t plain = peak("plain"), value = peak("value"), values = peak("values"), turns = peak("turns"),
                sixths = peak("all");
  EXPECT_NEAR(static_cast<double>(plain - value), 36 * wide, 8 * wide);
  EXPECT_NEAR(static_cast<double>(value - values), 36 * wide, 8 * wide);
  EXPECT_LE(turns, values + wide);
  EXPECT_NEAR(static_cast<double>(plain - sixths), (72 - 12) * wide + (36 - 12) * narrow, 6 * wide);
}

}  // namespace
}  // namespace mesh
