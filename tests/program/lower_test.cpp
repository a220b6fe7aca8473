// Programs of small graphs: as text against goldens (UPDATE_GOLDENS=1 writes them anew), and in order under many
// layouts.
#include "codegen/program/lower.h"

#include <gtest/gtest.h>

#include "codegen/program/print_program.h"
#include "codegen/program/verify_program.h"
#include "tests/program/golden.h"
#include "tests/program/models.h"

namespace mesh {
namespace {

using tests::expect_golden, tests::layout;
using Axes = std::vector<std::pair<std::string, int64_t>>;
using Rules = std::vector<std::pair<std::string, std::string>>;

std::string joined(const std::vector<std::string>& messages) {
  std::string text;
  for (const std::string& message : messages) text += message + "\n";
  return text;
}

Program program_of(const Graph& model, const Axes& axes, const Rules& rules) {
  return lower(tests::placed(model, layout(model, axes, rules)));
}

TEST(Lower, perceptron_on_one_rank) {
  const Program program = program_of(tests::perceptron(), {}, {});
  EXPECT_EQ(joined(verify_program(program)), "");
  expect_golden("perceptron_1", print_program(program));
}

TEST(Lower, perceptron_on_two_by_two_ranks) {
  const Program program =
      program_of(tests::perceptron(), {{"rows", 2}, {"columns", 2}}, {{"batch", "rows"}, {"hidden", "columns"}});
  EXPECT_EQ(joined(verify_program(program)), "");
  expect_golden("perceptron_2x2", print_program(program));
}

TEST(Lower, residual_on_one_rank) {
  const Program program = program_of(tests::residual(), {}, {});
  EXPECT_EQ(joined(verify_program(program)), "");
  expect_golden("residual_1", print_program(program));
}

TEST(Lower, residual_with_split_batch_and_width) {
  const Program program =
      program_of(tests::residual(), {{"data", 2}, {"model", 2}}, {{"batch", "data"}, {"wide", "model"}});
  EXPECT_EQ(joined(verify_program(program)), "");
  expect_golden("residual_2x2", print_program(program));
}

TEST(Lower, any_dim_may_be_split) {
  for (const Graph& model : {tests::perceptron(), tests::residual()})
    for (const Dim& dim : model.dims) {
      if (dim.name == "layer") continue;
      for (int64_t ranks : {2, 3, 4}) {
        const Program program = program_of(model, {{"all", ranks}}, {{dim.name, "all"}});
        EXPECT_EQ(joined(verify_program(program)), "") << model.model << " with " << dim.name << " over " << ranks;
      }
    }
}

}  // namespace
}  // namespace mesh
