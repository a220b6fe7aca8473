// An op and a step that stand in one file of these tests go through gradient, placement, lowering, interpreter and
// emitter: no pass needs to know of them.
#include "tests/emit/new_op.h"

#include <gtest/gtest.h>

#include <cstring>

#include "codegen/graph/print_graph.h"
#include "codegen/interpret/arrays.h"
#include "codegen/interpret/interpret.h"
#include "codegen/interpret/interpreted_program.h"
#include "codegen/program/print_program.h"
#include "codegen/program/verify_program.h"
#include "tests/emit/emitted_cases.h"
#include "tests/emit/record.h"

namespace mesh::tests {
namespace {

using Numbers = std::vector<double>;

meshrt::Array array(const std::vector<int64_t>& shape, const Numbers& numbers) {
  meshrt::Array result = make_array(Type::f32, shape);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float number = static_cast<float>(numbers[i]);
    std::memcpy(result.data.data() + i * sizeof number, &number, sizeof number);
  }
  return result;
}

float element(const meshrt::Array& array, size_t i) {
  float number;
  std::memcpy(&number, array.data.data() + i * sizeof number, sizeof number);
  return number;
}

/// Numbers of which no two are equal.
Numbers numbers(int64_t count, double begin) {
  Numbers result;
  for (int64_t i = 0; i < count; ++i) result.push_back(begin + 0.25 * static_cast<double>((i * 7) % 11) - 1);
  return result;
}

/// The model's formula, by itself.
double loss(const Numbers& x, const Numbers& w, const Numbers& t) {
  double sum = 0;
  for (int64_t b = 0; b < batch_size; ++b)
    for (int64_t p = 0; p < point_size; ++p) {
      const auto y = [&](int64_t point) {
        return x[static_cast<size_t>(b * point_size + point)] * w[static_cast<size_t>(point)];
      };
      const double z = y(p) * y((p + 1) % point_size), off = z - t[static_cast<size_t>(b * point_size + p)];
      sum += off * off;
    }
  return sum / (batch_size * point_size);
}

class NewOp : public testing::TestWithParam<NewOpCase> {};

TEST_P(NewOp, has_the_value_and_the_gradient_of_its_formula) {
  const Program program = neighbours_lowered(GetParam());
  const Numbers x = numbers(batch_size * point_size, 0.3), t = numbers(batch_size * point_size, 0.1),
                w = numbers(point_size, 0.7);
  InterpretRequest request{program};
  request.feeds = {{"x", array({batch_size, point_size}, x)}, {"t", array({batch_size, point_size}, t)}};
  request.stored = {{"w", array({point_size}, w)}};
  const InterpretResult result = interpret(request);
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_NEAR(result.metrics[0][0], loss(x, w, t), 1e-5 * loss(x, w, t));
  const meshrt::Array& slope = result.wanted.at("grad(w)");
  constexpr double step = 1e-4;
  for (size_t i = 0; i < w.size(); ++i) {
    Numbers more = w, less = w;
    more[i] += step, less[i] -= step;
    const double expected = (loss(x, more, t) - loss(x, less, t)) / (2 * step);
    EXPECT_NEAR(element(slope, i), expected, 1e-4 * (1 + std::abs(expected))) << i;
  }
}

TEST_P(NewOp, keeps_its_dim_whole) {
  const ShardedGraph sharded = neighbours_placed(GetParam());
  size_t found = 0;
  for (const Node& node : sharded.graph.nodes) {
    if (!std::holds_alternative<DefinedOp>(node.op)) continue;
    ++found;
    EXPECT_EQ(op_text(sharded.graph, node.op), "neighbour_product[point]");
    EXPECT_TRUE(sharded.placement(node.inputs[0]).dims[1].axes.empty());
    const Node& producer = sharded.graph.node(sharded.graph.value(node.inputs[0]).producer);
    EXPECT_EQ(std::holds_alternative<ReshardOp>(producer.op), GetParam().name == "points");
  }
  EXPECT_EQ(found, 1u);
}

TEST_P(NewOp, is_one_step_that_is_printed_and_verified) {
  Program program = neighbours_lowered(GetParam());
  EXPECT_NE(print_program(program).find("neighbour product z = "), std::string::npos) << print_program(program);
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  for (Step& step : program.routines[0].steps)
    if (auto* own = std::get_if<DefinedStep>(&step.what)) own->writes = {{program.entries[0].results[0], {}}};
  const std::vector<std::string> wrong = verify_program(program);
  const auto tells = [](const std::string& message) { return message.ends_with("lies otherwise than its operand"); };
  EXPECT_TRUE(std::ranges::any_of(wrong, tells));
}

TEST_P(NewOp, is_emitted_as_it_is_interpreted) {
  const Program program = neighbours_lowered(GetParam());
  const auto interpreted = record([&] { return std::make_unique<InterpretedProgram>(program); }, 2);
  const auto emitted = record(emitted_cases().at(GetParam().name), 2);
  for (const Record& one : interpreted) ASSERT_GT(one.size(), 3u);
  EXPECT_EQ(differences(interpreted, emitted), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(All, NewOp, testing::ValuesIn(new_op_cases()), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace mesh::tests
