// Fusion, memory plan and layouts must not change a number: interpreted programs of the small models, fused and not, on
// one rank and on many.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>

#include "codegen/program/lower.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"
#include "tests/program/models.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::expect_equal;
using tests::layout;

InterpretResult result_of(const Graph& model, const Layout& layout, bool fuse) {
  return tests::run(lower(tests::placed(model, layout), {fuse}));
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

/// Over any number of equal batches, on any mesh, evaluation gives the metrics that the first training step gives.
TEST(Fuse, evaluation_agrees_with_the_training_step) {
  for (const Graph& model : {tests::perceptron(), tests::residual()})
    for (const Case& one : {Case{"one rank", {}, {}},
                            {"batch over 2", {{"a", 2}}, {{"batch", "a"}}},
                            {"batch over 4", {{"a", 4}}, {{"batch", "a"}}}})
      for (bool fuse : {false, true}) {
        const Program program = lower(tests::placed(model, layout(model, one.axes, one.rules)), {fuse});
        const std::vector<double> trained = tests::run(program).metrics[0], found = tests::evaluate(program, 3);
        ASSERT_EQ(trained.size(), found.size());
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_NEAR(trained[i], found[i], 1e-5 * (1 + std::abs(trained[i]))) << model.model << ", " << one.name;
      }
}

/// What micro-batches add up is summed over ranks where it lies.
TEST(Fuse, gradients_are_added_up_where_they_are_reduced) {
  CompileRequest request;
  request.files = {LAST_TURN};
  request.layout = "rows";
  const Program program = tests::compiled(request).program;
  const auto& bytes = program.memory.by_kind;
  EXPECT_EQ(bytes.at(BufferKind::gradient), bytes.at(BufferKind::parameter));
}

/// A sum that becomes a state is not made in the state's memory: evaluations that execute the forward steps as well
/// would change that.
TEST(Fuse, evaluation_shares_a_forward_pass_whose_sum_becomes_a_state) {
  CompileRequest request;
  request.files = {testing::TempDir() + "/sum_that_is_kept.mesh"};
  std::ofstream(request.files[0]) << R"(
dim batch = 8, wide = 12, out = 3

model M {
  input x : real[batch, wide]
  input y : real[batch, out]
  param w : real[wide, out] = fan_in[wide]
  state seen : real[out] = zeros
  p = dot[wide](x, w)
  s = sum[batch](p)
  seen <- s
  loss = mean[batch](sum[out]((p - y - s) ^ 2))
  minimize loss with sgd(lr: 0.01)
}
mesh hosts { data: 4 }
layout rows on hosts { batch -> data }
)";
  request.layout = "rows";
  const Program program = tests::compiled(request).program;
  EXPECT_TRUE(program.routines[program.entry("evaluate")->run].after_forward_of);
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

/// What is rounded is what the unfused program rounds, whoever else reads the result, and under which names of dims: of
/// the first two models `up`, which others read too, and a gradient, of the last two values and their gradients.
TEST(Fuse, products_round_their_result_and_no_more) {
  for (const auto& [model, products, read_so_alone] :
       {std::tuple{"Activated", 2, 1}, {"Added", 2, 1}, {"Renamed", 4, 4}}) {
    CompileRequest request;
    request.files = {ROUNDED};
    request.model = model;
    request.precision = "mixed";
    Program fused = tests::compiled(request).program;
    request.plain = true;
    expect_equal(tests::run(tests::compiled(request).program), tests::run(fused), model);
    int rounding = 0, alone = 0;
    for_each_step(fused.routines.front().steps, [&](const Step& step) {
      const auto* product = std::get_if<ProductStep>(&step.what);
      if (!product || !product->epilogue.rounded) return;
      ++rounding;
      if (product->epilogue.rounded_alone) ++alone;
    });
    EXPECT_EQ(rounding, products) << model;
    EXPECT_EQ(alone, read_so_alone) << model;
  }
}

/// A product adds to what lies where its result comes to lie only where that is made for it, and nothing else happens
/// to the product: of the first model two add, of the others none.
TEST(Fuse, products_add_where_nobody_needs_the_term) {
  for (const auto& [model, adding] : {std::pair{"Chain", 2}, {"Kept", 0}, {"Activated", 0}, {"Given", 0}}) {
    CompileRequest request;
    request.files = {ADDED};
    request.model = model;
    Program fused = tests::compiled(request).program;
    request.plain = true;
    expect_equal(tests::run(tests::compiled(request).program), tests::run(fused), model);
    int added = 0;
    for_each_step(fused.routines.front().steps, [&](const Step& step) {
      const auto* product = std::get_if<ProductStep>(&step.what);
      if (!product || !product->accumulate) return;
      ++added;
      EXPECT_FALSE(product->epilogue.plus) << model;
    });
    EXPECT_EQ(added, adding) << model;
  }
}

/// A norm of a sum that is read again: what is centred is computed again from the sum, which the same nest has stored,
/// and what the nest makes for itself alone lies where its result comes to lie.
TEST(Fuse, norms_of_sums_store_no_more_than_the_sum) {
  CompileRequest request;
  request.files = {IN_PLACE};
  request.model = "Residual";
  const Program program = tests::compiled(request).program;
  const auto& nest = std::get<Nest>(program.routines.front().steps.front().what);
  std::map<std::string, int64_t> places;  // of what the nest stores
  for (const Pass& pass : nest.passes)
    for (const Pass::Store& store : pass.stores) {
      const Buffer& buffer = program.buffer(store.to.buffer);
      if (buffer.kind != BufferKind::parameter) places[buffer.name] = buffer.offset;
    }
  EXPECT_TRUE(places.contains("centred_add"));
  EXPECT_FALSE(places.contains("centred"));
  ASSERT_TRUE(places.contains("d_multiply"));
  EXPECT_EQ(places["d_centred"], places["d_multiply"]);
}

/// No copy of a parameter in bf16 is left, whether a turn is computed again or not, but where a product has few rows,
/// and of what micro-batches read again and again (`v`, behind the layers).
TEST(Fuse, products_round_parameters_as_they_read_them) {
  for (const auto& [model, layout, products] : {std::tuple{"Many", "kept", 6},
                                                {"Many", "again", 7},
                                                {"Many", "parts", 4},
                                                {"Many", "stages", 6},
                                                {"Few", "kept", 0},
                                                {"Both", "kept", 0}}) {
    CompileRequest request;
    request.files = {ROUNDED_PARAMETERS};
    request.model = model;
    request.layout = layout;
    request.precision = "mixed";
    const Program fused = tests::compiled(request).program;
    request.plain = true;
    expect_equal(tests::run(tests::compiled(request).program), tests::run(fused), model);
    int rounding = 0;
    for_each_step(fused.routines.front().steps, [&](const Step& step) {
      const auto* product = std::get_if<ProductStep>(&step.what);
      if (product && product->rounds_b) ++rounding;
    });
    EXPECT_EQ(rounding, products) << model << " " << layout;
  }
}

}  // namespace
}  // namespace mesh
