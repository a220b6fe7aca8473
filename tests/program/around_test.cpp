// Pipelines whose models read inputs, and what is made of them, in front of their layers and behind them, and what is
// collected of turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::compiled;

struct Spec {
  const char* file;
  std::vector<const char*> layouts;
};
const Spec around{
    AROUND, {"fill", "turns", "eager", "inter", "breadth", "circle", "half", "ahead", "sent", "vee", "room", "again"}};
const Spec collected{COLLECTED, {"fill", "turns", "half", "sent", "again"}};

CompileRequest request_of(const Spec& spec, const char* model, const char* layout,
                          std::map<std::string, int64_t> mesh) {
  CompileRequest request;
  request.files = {spec.file};
  request.precision = "f64";
  request.model = model;
  request.layout = layout;
  request.mesh = std::move(mesh);
  return request;
}

/// One rank's numbers, of steps and of an evaluation of two batches.
void expect_as_one_rank(const Spec& spec, const char* model, const std::vector<std::string>& wanted) {
  CompileRequest alone = request_of(spec, model, "", {});
  alone.one_rank = true;
  const std::vector<double> expected = tests::evaluate(compiled(alone).program, 2);
  const auto expect = [&](CompileRequest request, const std::string& what) {
    const std::vector<double> found = tests::evaluate(compiled(request).program, 2);
    ASSERT_EQ(found.size(), expected.size()) << what;
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-12 * std::abs(expected[i])) << what << ", metric " << i;
    request.wanted = wanted;
    tests::expect_as_one_rank(request, what);
  };
  for (const int64_t ranks : {1, 2, 3, 4})
    for (const char* layout : spec.layouts)
      expect(request_of(spec, model, layout, {{"pipe", ranks}}), fmt::format("{}, {} of {}", model, layout, ranks));
  expect(request_of(spec, model, "both", {{"data", 2}, {"pipe", 2}}), fmt::format("{} with the batch split", model));
}

/// A stage adds up what it alone has of an evaluation, and makes metrics of that in the end; extremes too.
TEST(Around, sums_of_inputs_alone) {
  expect_as_one_rank(around, "Divided", {"h", "grad(layer.turn.w)"});
  expect_as_one_rank(around, "Added", {"h", "grad(layer.turn.w)"});
}

/// In a V both ends of the layers are at one rank: what its first stage begins with does not come into its last one.
TEST(Around, values_of_both_ends) {
  expect_as_one_rank(around, "Input", {"h", "grad(layer.turn.w)"});
  expect_as_one_rank(around, "Made", {"size", "first", "h", "grad(front)", "grad(layer.turn.w)"});
}

/// Who is not trained is held where it is read, of which an evaluation knows as the step does.
TEST(Around, values_that_are_not_trained) {
  expect_as_one_rank(around, "Taught", {"goal", "h", "grad(first)", "grad(layer.turn.w)"});
}

/// Stages of a rank take and leave the slots of their turns, which do not lead in memory.
TEST(Around, turns_of_inputs) {
  expect_as_one_rank(around, "Entries", {"made", "both", "seen", "h", "grad(gain)", "grad(layer.turn.w)"});
}

/// Where weights' gradients have a time of their own, so have those of loops that are made of such.
TEST(Around, weights_of_other_loops) {
  expect_as_one_rank(around, "Beside", {"all", "behind", "grad(inner.w)", "grad(layer.turn.w)"});
}

/// A stage without turns of a loop has nothing of what is collected of them, whatever their dim is called there.
TEST(Around, stages_without_turns_of_a_loop) {
  expect_as_one_rank(collected, "Collected", {"f", "g", "renamed", "grad(enc.turn.w)", "grad(dec.turn.w)"});
}

/// What ranks move of turns lies in one piece, whatever it is made of.
TEST(Around, movements_of_turns) {
  for (const char* layout : {"gathered", "columns", "rows"})
    for (const int64_t ranks : {2, 3}) {
      CompileRequest request = request_of({MOVED_TURNS, {}}, "Moved", layout, {{"model", ranks}, {"pipe", 2}});
      request.wanted = {"z", "h", "grad(layer.shift)"};
      tests::expect_as_one_rank(request, fmt::format("{} of {}", layout, ranks));
    }
}

}  // namespace
}  // namespace mesh
