// Fusion, memory plan and layouts must not change a number: interpreted programs of the small models, fused and not, on
// one rank and on many.
#include <gtest/gtest.h>

#include "codegen/program/lower.h"
#include "tests/program/models.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::expect_equal;
using tests::layout;

InterpretResult result_of(const Graph& model, const Layout& layout, bool fuse) {
  const tests::Placed placed = tests::placed(model, layout);
  return tests::run(lower(placed.train, &placed.evaluate, {fuse}));
}

struct Case {
  const char* name;
  std::vector<std::pair<std::string, int64_t>> axes;
  std::vector<std::pair<std::string, std::string>> rules;
};

void check(const Graph& model, const std::vector<Case>& cases) {
  const InterpretResult expected = result_of(model, layout(model, {}, {}), false);
  expect_equal(expected, result_of(model, layout(model, {}, {}), true), "fused on one rank");
  for (const Case& one : cases)
    for (bool fuse : {false, true})
      expect_equal(expected, result_of(model, layout(model, one.axes, one.rules), fuse),
                   std::string(one.name) + (fuse ? ", fused" : ", not fused"));
}

TEST(Fuse, perceptron_gives_the_same_numbers) {
  check(tests::perceptron(), {{"batch over 4", {{"a", 4}}, {{"batch", "a"}}},
                              {"hidden over 3", {{"a", 3}}, {{"hidden", "a"}}},
                              {"class over 2", {{"a", 2}}, {{"class", "a"}}},
                              {"batch and hidden", {{"a", 2}, {"b", 2}}, {{"batch", "a"}, {"hidden", "b"}}},
                              {"pixel and class", {{"a", 2}, {"b", 2}}, {{"pixel", "a"}, {"class", "b"}}}});
}

TEST(Fuse, residual_gives_the_same_numbers) {
  check(tests::residual(), {{"batch over 2", {{"a", 2}}, {{"batch", "a"}}},
                            {"wide over 3", {{"a", 3}}, {{"wide", "a"}}},
                            {"embed over 4", {{"a", 4}}, {{"embed", "a"}}},
                            {"batch and wide", {{"a", 2}, {"b", 2}}, {{"batch", "a"}, {"wide", "b"}}}});
}

}  // namespace
}  // namespace mesh
