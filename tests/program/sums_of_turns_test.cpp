// What micro-batches add up is added where it is made, and a parameter has one gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "codegen/program/single_map.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

struct Added {
  int products = 0, columns = 0, sums = 0, rows = 0, nests = 0;
  bool operator==(const Added&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Added& added) {
  return out << added.products << " products, " << added.columns << " sums of columns, " << added.sums
             << " sums of nests, " << added.rows << " of rows, " << added.nests << " nests that add";
}

/// What of a training step adds to gradients that lie there: products, sums of their columns and of nests, and rows;
/// and nests that do no more than to add what lies elsewhere.
Added added(const Program& program) {
  Added found;
  const auto is_gradient = [&](const Access& access) {
    return program.buffer(access.buffer).kind == BufferKind::gradient;
  };
  for_each_step(program.routines.front().steps, [&](const Step& step) {
    if (const auto* product = std::get_if<ProductStep>(&step.what); product && product->accumulate) {
      found.products += is_gradient(product->c);
      found.columns += product->column_sum && is_gradient(*product->column_sum);
    }
    if (const auto* rows = std::get_if<ScatterStep>(&step.what)) found.rows += rows->adds && is_gradient(rows->table);
    if (const auto* nest = std::get_if<Nest>(&step.what))
      for (const Pass& pass : nest->passes)
        for (const Pass::Accumulate& sum : pass.accumulates) found.sums += sum.adds && is_gradient(sum.to);
    if (const std::optional<AddedTo> one = added_to(step)) found.nests += is_gradient(one->sum);
  });
  return found;
}

struct OfLayout {
  const char* layout;
  Added added;
};

class SumsOfTurns : public testing::TestWithParam<OfLayout> {};

TEST_P(SumsOfTurns, are_added_where_they_are_made) {
  CompileRequest request;
  request.files = {SUMS_OF_TURNS};
  request.layout = GetParam().layout;
  const Program fused = tests::compiled(request).program;
  request.plain = true;
  tests::expect_equal(tests::run(tests::compiled(request).program), tests::run(fused), GetParam().layout);
  for (const Stored& stored : fused.sharded.graph.stored) {
    if (stored.kind != StoredKind::parameter) continue;
    const auto is_its_gradient = [&](const Buffer& buffer) {
      return !buffer.view_of && buffer.path == "d_" + stored.path;
    };
    EXPECT_EQ(std::ranges::count_if(fused.buffers, is_its_gradient), 1) << stored.path;
  }
  EXPECT_EQ(added(fused), GetParam().added);
}

// Products: two of `turn`, one of each of `table`, `back`, `out`, `up` and `down`; columns: of `shift`, `rise` and
// `bias`; a nest's: of `gain`; rows: of `table`. Where a rank has both ends of a pipeline, those of `turn` and `table`
// begin apart, and are told from a gradient.
constexpr Added everywhere = {.products = 7, .columns = 3, .sums = 1, .rows = 1, .nests = 0},
                ends_apart = {.products = 4, .columns = 3, .sums = 1, .rows = 0, .nests = 0};

INSTANTIATE_TEST_SUITE_P(layouts, SumsOfTurns,
                         testing::Values(OfLayout{"parts", everywhere}, OfLayout{"again", everywhere},
                                         OfLayout{"stages", everywhere}, OfLayout{"chunks", everywhere},
                                         OfLayout{"apart", everywhere}, OfLayout{"there", ends_apart},
                                         OfLayout{"replicas", everywhere}, OfLayout{"stages_of_replicas", everywhere}),
                         [](const auto& one) { return std::string(one.param.layout); });

}  // namespace
}  // namespace mesh
