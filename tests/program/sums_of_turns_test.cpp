// What micro-batches add up is added where it is made, and a parameter has one gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "codegen/program/walk.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

struct Added {
  int products = 0, sums = 0, rows = 0, nests_between = 0;
};

/// What of a training step adds to gradients that lie there: products, sums of nests and rows; and nests that add one
/// whole gradient to another.
Added added(const Program& program) {
  Added found;
  const auto is_gradient = [&](const Access& access) {
    return program.buffer(access.buffer).kind == BufferKind::gradient;
  };
  for_each_step(program.routines.front().steps, [&](const Step& step) {
    if (const auto* product = std::get_if<ProductStep>(&step.what))
      found.products += product->accumulate && is_gradient(product->c);
    if (const auto* rows = std::get_if<ScatterStep>(&step.what)) found.rows += rows->adds && is_gradient(rows->table);
    const auto* nest = std::get_if<Nest>(&step.what);
    if (!nest) return;
    for (const Pass& pass : nest->passes) {
      for (const Pass::Accumulate& sum : pass.accumulates) found.sums += sum.adds && is_gradient(sum.to);
      const auto reads_gradient = [&](const Scalar& scalar) {
        const auto* load = std::get_if<Scalar::Load>(&scalar.what);
        return load && is_gradient(load->access);
      };
      if (std::ranges::count_if(pass.scalars, reads_gradient) > 1) ++found.nests_between;
    }
  });
  return found;
}

class SumsOfTurns : public testing::TestWithParam<const char*> {};

TEST_P(SumsOfTurns, are_added_where_they_are_made) {
  CompileRequest request;
  request.files = {SUMS_OF_TURNS};
  request.layout = GetParam();
  const Program fused = tests::compiled(request).program;
  request.plain = true;
  tests::expect_equal(tests::run(tests::compiled(request).program), tests::run(fused), GetParam());
  for (const Stored& stored : fused.sharded.graph.stored) {
    if (stored.kind != StoredKind::parameter) continue;
    const auto is_its_gradient = [&](const Buffer& buffer) {
      return !buffer.view_of && buffer.path == "d_" + stored.path;
    };
    EXPECT_EQ(std::ranges::count_if(fused.buffers, is_its_gradient), 1) << stored.path;
  }
  const Added found = added(fused);
  EXPECT_EQ(found.products, 5);  // two of `turn`, and one of each of `table`, `up` and `down`
  EXPECT_EQ(found.sums, 1);      // of `gain`; those of `bias` are a product's
  EXPECT_EQ(found.rows, 1);      // of `table`
  EXPECT_EQ(found.nests_between, 0);
}

INSTANTIATE_TEST_SUITE_P(layouts, SumsOfTurns, testing::Values("parts", "stages", "chunks"));

}  // namespace
}  // namespace mesh
