// Gradients of weights that all turns of a loop share: one product behind the loop, which gives what the turns add up.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

CompileRequest cells(const std::string& layout) {
  CompileRequest request;
  request.files = {RECURRENT};
  request.layout = layout;
  request.precision = "f64";
  request.wanted = {"grad(wx)", "grad(wh)", "grad(bias)", "grad(again)", "grad(layer.deep)", "grad_norm"};
  return request;
}

/// Products of a training step that add up over turns.
int64_t products_over(const CompileRequest& request, const std::string& turns) {
  const Compiled result = tests::compiled(request);
  const Graph& graph = result.sharded().graph;
  int64_t found = 0;
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes)
      if (const auto* dot = std::get_if<DotOp>(&graph.node(id).op))
        found += std::ranges::count(dot->dims, turns, [&](DimId dim) { return graph.dim(dim).name; });
  return found;
}

TEST(ProductsOfTurns, equals_one_rank) {
  for (const char* layout :
       {"one", "samples", "units", "old", "both", "turns", "parts", "zero", "again", "groups", "stages"})
    tests::expect_as_one_rank(cells(layout), layout);
}

TEST(ProductsOfTurns, equals_what_turns_add_up) {
  CompileRequest turn_by_turn = cells("one");
  turn_by_turn.plain = true;
  tests::expect_equal(tests::run(tests::compiled(turn_by_turn).program),
                      tests::run(tests::compiled(cells("one")).program), "one");
}

TEST(ProductsOfTurns, where_loops_share) {
  const auto equals = [](const char* model, const std::vector<std::string>& wanted,
                         const std::vector<std::string>& layouts) {
    for (const std::string& layout : layouts) {
      CompileRequest request;
      request.files = {LOOPS_THAT_SHARE};
      request.model = model;
      request.layout = layout;
      request.precision = "f64";
      request.wanted = wanted;
      const std::string what = model + (", " + layout);
      tests::expect_as_one_rank(request, what);
      CompileRequest turn_by_turn = request;
      turn_by_turn.plain = true;
      tests::expect_equal(tests::run(tests::compiled(turn_by_turn).program),
                          tests::run(tests::compiled(request).program), what + ", turn by turn");
    }
  };
  equals("Nested", {"grad(w)", "grad(v)", "grad(outer.p)"}, {"samples", "turns", "units", "pairs", "nested"});
  equals("Renamed", {"grad(w)"}, {"samples", "turns", "units", "pairs"});
  equals("Sums", {"grad(w)", "grad(inner.p)", "before", "within"}, {"samples", "turns", "units", "pairs"});
}

/// Of few rows, where what the turns multiply may be kept.
TEST(ProductsOfTurns, are_of_few_rows) {
  const auto with_batch = [](const char* layout, const char* batch) {
    CompileRequest request = cells(layout);
    request.set = {{"batch", batch}};
    return products_over(request, "time");
  };
  // Of `wh` and of `deep`, two of `again`, and that of `wx`, which no loop reads.
  EXPECT_EQ(with_batch("one", "6"), 5);
  EXPECT_EQ(with_batch("one", "256"), 5);
  EXPECT_EQ(with_batch("one", "258"), 1);
  EXPECT_EQ(with_batch("again", "6"), 1);
}

TEST(ProductsOfTurns, leave_sums_of_the_forward_pass) {
  CompileRequest request;
  request.files = {LOOPS_THAT_SHARE};
  request.model = "Sums";
  request.layout = "samples";
  EXPECT_EQ(products_over(request, "inner"), 0);
}

}  // namespace
}  // namespace mesh
