// Fusion, memory plan and layouts must not change a number: interpreted programs of the small models, fused and not, on
// one rank and on many.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "codegen/program/interpret.h"
#include "codegen/program/lower.h"
#include "tests/program/models.h"

namespace mesh {
namespace {

using tests::layout;

/// Fixed numbers of every shape, the same for all layouts.
std::map<std::string, meshrt::Array> feeds(const Graph& model, StoredKind kind) {
  std::map<std::string, meshrt::Array> arrays;
  for (const Stored& stored : model.stored) {
    if (stored.kind != kind) continue;
    meshrt::Array array{stored.type.element, {}, {}};
    for (DimId dim : stored.type.dims) array.shape.push_back(model.dim(dim).size);
    array.data.resize(static_cast<size_t>(array.elements()) * meshrt::size_of(array.type));
    for (int64_t i = 0; i < array.elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (array.type == Type::i32) {
        const auto index = static_cast<int32_t>(i * 7 % model.dim(stored.type.index_of).size);
        std::memcpy(array.data.data() + at * sizeof index, &index, sizeof index);
      } else {
        const auto number =
            static_cast<float>(std::sin(1.0 + 3.7 * static_cast<double>(i) + static_cast<double>(stored.path.size())));
        std::memcpy(array.data.data() + at * sizeof number, &number, sizeof number);
      }
    }
    arrays[stored.path] = std::move(array);
  }
  return arrays;
}

InterpretResult result_of(const Graph& model, const Layout& layout, bool fuse) {
  const tests::Placed placed = tests::placed(model, layout);
  const Program program = lower(placed.train, &placed.evaluate, {fuse});
  InterpretRequest request{program};
  request.feeds = feeds(model, StoredKind::input);
  request.stored = feeds(model, StoredKind::parameter);
  request.steps = 3;
  return interpret(request);
}

void expect_equal(const InterpretResult& expected, const InterpretResult& found, const std::string& what) {
  ASSERT_EQ(expected.exit_code, 0) << what;
  ASSERT_EQ(found.exit_code, 0) << what;
  EXPECT_EQ(found.differing_copies, "") << what;
  ASSERT_EQ(expected.metrics.size(), found.metrics.size());
  for (size_t step = 0; step < expected.metrics.size(); ++step)
    for (size_t i = 0; i < expected.metrics[step].size(); ++i)
      EXPECT_NEAR(expected.metrics[step][i], found.metrics[step][i], 1e-5)
          << what << " step " << step << " metric " << i;
  for (const auto& [path, array] : expected.after) {
    ASSERT_TRUE(found.after.contains(path)) << what;
    const meshrt::Array& other = found.after.at(path);
    double largest = 0;
    for (int64_t i = 0; i < array.elements(); ++i) {
      float a = 0, b = 0;
      std::memcpy(&a, array.data.data() + i * 4, 4);
      std::memcpy(&b, other.data.data() + i * 4, 4);
      largest = std::max(largest, static_cast<double>(std::abs(a - b)));
      ASSERT_FALSE(std::isnan(a) || std::isnan(b)) << what << " " << path;
    }
    EXPECT_LT(largest, 2e-5) << what << " " << path;
  }
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
