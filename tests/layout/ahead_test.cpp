// What must be seen ahead: under layouts of few pins a step sends what it sends where all is pinned well.
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/graph/builder.h"
#include "codegen/layout/predict.h"
#include "codegen/rewrites/reassociate.h"

namespace mesh {
namespace {

Prediction predicted(const std::string& model, const std::string& layout) {
  CompileRequest request;
  request.files = {AHEAD};
  request.model = model;
  request.layout = layout;
  SourceMap sources;
  DiagnosticSink sink;
  const std::optional<Compiled> compiled = compile(request, sources, sink);
  EXPECT_TRUE(compiled) << model;
  return compiled ? predict(compiled->sharded()) : Prediction{};
}

int64_t sent_by(const std::string& model, const std::string& layout) {
  int64_t bytes = 0;
  for (const PlannedCollective& one : predicted(model, layout).collectives) bytes += one.bytes * one.count;
  return bytes;
}

constexpr int64_t loss = 6;  // bytes of its all_reduce over four ranks
int64_t all_reduced(int64_t elements) { return 2 * elements * 4 * 3 / 4; }
int64_t scattered(int64_t elements) { return elements * 4 * 3 / 4; }

TEST(Ahead, ACarryLiesAsItsLoopMakesIt) {
  EXPECT_EQ(sent_by("Carry", "carry"), all_reduced(64 * 512 + 512 * 512) + loss);  // the parameters' gradients
}

TEST(Ahead, PartialTermsAreAddedBeforeTheyAreCompleted) {
  EXPECT_EQ(sent_by("Terms", "terms"), 4 * 2 * all_reduced(32 * 128 * 256));  // h and its gradient, of each layer
}

TEST(Ahead, APartialSumIsScatteredForALaterReader) {
  const int64_t least = scattered(64 * 4096) + all_reduced(64 * 64) + scattered(64 * 4096);  // h, o, and h's gradient
  EXPECT_EQ(sent_by("Scatter", "scatter"), least);
  EXPECT_EQ(sent_by("Scatter", "scatter_pinned"), least);
}

TEST(Ahead, WhatBecomesLargerIsMovedWhileItIsSmall) {
  // x to the other dim once, also for backward; the gradient of w
  EXPECT_EQ(sent_by("Widened", "widened"), scattered(64 * 512 * 128) / 4 + all_reduced(128 * 1024) + loss);
}

TEST(Ahead, AProductIsSplitAsItsReaderWantsIt) {
  EXPECT_EQ(sent_by("Product", "product"), scattered(4096 * 64) + all_reduced(4096 * 16));  // a gathered, o completed
}

TEST(Ahead, ATableIsGatheredWhereItIsSmallerThanWhatIsReadOfIt) {
  EXPECT_EQ(sent_by("Rows", "rows"), 2 * scattered(4096 * 64) + loss);
}

TEST(Ahead, APinHoldsForTheExpressionThatMakesTheValue) {
  EXPECT_EQ(sent_by("Experts", "experts"), 3 * scattered(8 * 8 * 16 * 64) / 4 + loss);  // xe, ye and the gradient of ye
}

TEST(Ahead, WhatIsKeptForBackwardLiesAsAfterItsExchange) {
  // of each of four layers xe, ye and the gradient of xe, and once the gradient that enters
  EXPECT_EQ(sent_by("Kept", "kept"), (4 * 3 + 1) * scattered(8 * 8 * 16 * 64) / 4 + loss);
}

TEST(Ahead, ADimThatIsSplitIntoTwoLiesAsTheyDo) { EXPECT_EQ(sent_by("Heads", "heads"), loss); }

TEST(Ahead, ProductsOfOneValueShareItsGather) { EXPECT_EQ(sent_by("Shared", "shared"), scattered(2048 * 512)); }

TEST(Ahead, WhatTwoPartialSumsAreMadeOfIsMovedInTheirPlace) {
  EXPECT_EQ(sent_by("Diamond", "diamond"), scattered(1024 * 1024) / 4 + scattered(256 * 256));  // u, y
}

TEST(Ahead, RulesReachThroughRenames) {
  EXPECT_EQ(sent_by("Renamed", "renamed"),
            2 * scattered(512 * 64) + 3 * all_reduced(32 * 64) + loss);  // k, d_k, weights
}

TEST(Ahead, WhatALateValueIsMadeOfIsComputedInParts) {
  const int64_t products = (1 + 8) * (2 + 2 + 2) - 1;  // two a layer, each with two gradients, but for that of x
  EXPECT_EQ(predicted("Late", "late").product_flops, products * 2.0 * 1024 * 256 * 512 / 4);
  EXPECT_EQ(sent_by("Late", "late"), (1 + 8) * 2 * all_reduced(256 * 512) + loss);  // gradients of the parameters
}

/// h + a + b + c, of which a and c are of one kind.
TEST(Reassociate, TermsOfOneKindAreAddedFirst) {
  Graph graph;
  graph.bodies.resize(1);
  GraphBuilder build(graph);
  const DimId dim = build.dim("n", 4);
  std::map<std::string, ValueId> terms;
  for (const char* name : {"h", "a", "b", "c"})
    terms[name] = graph.stored[build.stored(StoredKind::input, name, {Type::f32, {}, {dim}}, {}).index].value;
  const ValueId sum = build.add(build.add(build.add(terms["h"], terms["a"]), terms["b"]), terms["c"]);
  graph.wanted.push_back({"sum", sum});
  const auto kind = [&](ValueId value) { return value == terms["a"] || value == terms["c"] ? 1 : plain_term; };
  EXPECT_TRUE(reassociate(graph, kind));
  const auto terms_of = [&](ValueId value) { return graph.node(graph.value(value).producer).inputs; };
  const std::vector<ValueId> outer = terms_of(graph.wanted[0].value);
  ASSERT_EQ(outer.size(), 2U);
  EXPECT_EQ(terms_of(outer[0]), (std::vector{terms["h"], terms["b"]}));
  EXPECT_EQ(terms_of(outer[1]), (std::vector{terms["a"], terms["c"]}));
  EXPECT_FALSE(reassociate(graph, kind)) << "what is in order stays";
  EXPECT_FALSE(reassociate(graph, [](ValueId) { return plain_term; }));
}

TEST(Reassociate, ASumThatTurnsAddToStaysOneAddition) {
  Graph graph;
  graph.bodies.resize(1);
  GraphBuilder build(graph);
  const DimId dim = build.dim("n", 4);
  std::map<std::string, ValueId> terms;
  for (const char* name : {"so_far", "a", "b"})
    terms[name] = graph.stored[build.stored(StoredKind::input, name, {Type::f32, {}, {dim}}, {}).index].value;
  graph.wanted.push_back({"sum", build.add(terms["so_far"], build.add(terms["a"], terms["b"]))});
  EXPECT_FALSE(reassociate(graph, [&](ValueId value) {
    return value == terms["so_far"] ? fixed_term : value == terms["a"] ? 1 : plain_term;
  }));
}

}  // namespace
}  // namespace mesh
