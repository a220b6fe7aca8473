// A rule holds under every name of a value: a block's result has the block's and that to which it is bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "codegen/compile.h"
#include "codegen/gradient/computed_again.h"
#include "codegen/layout/predict.h"

namespace mesh {
namespace {

using MovedValue = std::tuple<std::string, std::string, CollectiveKind, int64_t, int64_t>;

struct Outcome {
  std::vector<MovedValue> sent;    // phase, value, kind, bytes, executions
  std::vector<std::string> codes;  // of what is reported
};

Outcome outcome(const std::string& model, const std::string& layout) {
  CompileRequest request;
  request.files = {NAMES};
  request.model = model;
  request.layout = layout;
  SourceMap sources;
  DiagnosticSink sink;
  const std::optional<Compiled> compiled = compile(request, sources, sink);
  Outcome result;
  for (const Diagnostic& one : sink.diagnostics()) result.codes.push_back(one.code);
  if (compiled)
    for (const PlannedCollective& one : predict(compiled->sharded()).collectives)
      result.sent.emplace_back(one.phase, one.tensor, one.kind, one.bytes, one.count);
  std::ranges::sort(result.sent);
  return result;
}

void expect_alike(const std::string& model, const std::string& first, const std::string& second) {
  const Outcome under_first = outcome(model, first), under_second = outcome(model, second);
  EXPECT_FALSE(under_first.sent.empty()) << model;
  EXPECT_NE(under_first.sent, outcome(model, "plain").sent) << model << ": the rule changes nothing";
  EXPECT_EQ(under_first.sent, under_second.sent) << model << " " << second;
}

TEST(Names, ARuleHoldsUnderASecondNameOfABlocksResult) {
  expect_alike("Block", "first", "second");
  expect_alike("Block", "first", "twice");
}

TEST(Names, ARuleHoldsUnderTheNameOfWhatIsBoundAgain) { expect_alike("Again", "first", "second"); }

TEST(Names, NamesLastInTurnsAndInMicroBatches) {
  expect_alike("Turns", "first_in_turns", "second_in_turns");
  expect_alike("Turns", "first_in_parts", "second_in_parts");
}

TEST(Names, AParameterIsCalledAsItsTurnIs) { expect_alike("Turns", "of_parameter", "of_its_turn"); }

TEST(Names, WhatALoopChangesLiesInItAsItsNameBehindTheLoopSays) { expect_alike("Turns", "in_turns", "behind_turns"); }

TEST(Names, RulesUnderTwoNamesOfOneValueContradictEachOther) {
  EXPECT_EQ(outcome("Again", "against").codes, std::vector<std::string>{"E0406"});
  EXPECT_EQ(outcome("Block", "against").codes, std::vector<std::string>{"E0406"});
}

TEST(Names, ABudgetKnowsAValueByEachName) {
  EXPECT_EQ(outcome("Block", "within_budget").codes, std::vector<std::string>{"E0417"});
}

TEST(Names, WhatIsComputedAgainIsFoundByEachName) {
  CompileRequest request;
  request.files = {NAMES};
  request.model = "Turns";
  request.layout = "plain";
  SourceMap sources;
  DiagnosticSink sink;
  const std::optional<Compiled> compiled = compile(request, sources, sink);
  ASSERT_TRUE(compiled);
  const std::set<NodeId> of_block = makers_of(compiled->sharded().graph, {"layer.scale"}),
                         of_value = makers_of(compiled->sharded().graph, {"layer.q"});
  EXPECT_FALSE(of_value.empty());
  EXPECT_TRUE(std::ranges::includes(of_block, of_value));
}

}  // namespace
}  // namespace mesh
