// Attention over a sequence that ranks have in parts: keys and values go round, and nobody holds all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "codegen/compile.h"
#include "codegen/graph/op.h"
#include "codegen/layout/balance.h"
#include "codegen/layout/predict.h"
#include "codegen/program/extent.h"

namespace mesh {
namespace {

Compiled compiled(const std::map<std::string, int64_t>& mesh, const std::map<std::string, std::string>& sizes = {}) {
  CompileRequest request;
  request.files = {GPT};
  request.layout = "ring";
  request.mesh = mesh;
  request.set = sizes;
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> result = compile(request, sources, sink);
  EXPECT_TRUE(result);
  return std::move(*result);
}

/// By phase: how many values go round, and what a rank sends of each; nothing else that has keys is moved.
std::map<std::string, std::pair<int64_t, int64_t>> rings(const Compiled& of) {
  std::map<std::string, std::pair<int64_t, int64_t>> found;
  for (const PlannedCollective& one : predict(of.sharded()).collectives) {
    if (one.kind != CollectiveKind::ring) {
      for (const DimId dim : of.sharded().graph.type(one.moved).dims)
        EXPECT_NE(of.sharded().graph.dim(dim).name, "key") << name_of(one.kind) << " of " << one.tensor;
      continue;
    }
    auto& [count, bytes] = found[one.phase];
    count += one.count;
    EXPECT_TRUE(bytes == 0 || bytes == one.bytes) << one.tensor;
    bytes = one.bytes;
  }
  return found;
}

using Rings = std::map<std::string, std::pair<int64_t, int64_t>>;

// k and v of four layers, and in the backward pass their gradients beside them.
TEST(Ring, sends_all_parts_but_one) {
  const int64_t part = 16 * 32 * 4 * 32 * 4;  // batch, positions, heads, head_dim, bytes
  EXPECT_EQ(rings(compiled({{"data", 1}, {"ctx", 4}})),
            (Rings{{"forward", {8, 3 * part}}, {"backward", {16, 3 * part}}}));
  EXPECT_EQ(rings(compiled({{"data", 2}, {"ctx", 4}})),
            (Rings{{"forward", {8, 3 * part / 2}}, {"backward", {16, 3 * part / 2}}}));
}

TEST(Ring, parts_may_be_uneven) {
  const int64_t row = 16 * 4 * 32 * 4;  // of one position; parts of 32, 33 and 33, of which the least stays
  EXPECT_EQ(rings(compiled({{"data", 1}, {"ctx", 3}}, {{"seq", "98"}})),
            (Rings{{"forward", {8, 66 * row}}, {"backward", {16, 66 * row}}}));
}

TEST(Ring, nobody_holds_more_than_parts_of_the_keys) {
  const Program& program = compiled({{"data", 1}, {"ctx", 4}}).program;
  size_t with_keys = 0;
  for (const Buffer& buffer : program.buffers)
    for (const LocalDim& local : buffer.dims)
      if (program.sharded.graph.dim(local.dim).name == "key") {
        ++with_keys;
        EXPECT_EQ(largest_extent(program, local), 32) << buffer.name;
      }
  EXPECT_GT(with_keys, 0u);
}

/// Where attention is one op, no value has both.
void expect_no_scores(const std::string& rules) {
  SCOPED_TRACE(rules);
  CompileRequest request;
  request.files = {GPT, "beside"};
  request.layout = "beside";
  SourceMap sources;
  sources.add("beside", "mesh pair { all: 2 }\nlayout beside on pair { batch -> all; " + rules + " }\n");
  DiagnosticSink sink;
  const std::optional<Compiled> result = compile(request, sources, sink);
  ASSERT_TRUE(result);
  for (const Buffer& buffer : result->program.buffers) {
    const auto has = [&](std::string_view name) {
      return std::ranges::any_of(
          buffer.dims, [&](const LocalDim& local) { return result->sharded().graph.dim(local.dim).name == name; });
    };
    EXPECT_FALSE(has("seq") && has("key")) << buffer.name;
  }
}

// Neither keys nor values are without `batch`, so that the rule for keys speaks of nothing.
TEST(Ring, a_rule_for_other_keys_leaves_attention_one_op) { expect_no_scores("key -> all unless batch"); }

TEST(Ring, rules_for_parameters_alone_leave_attention_one_op) {
  for (const char* scope : {"params", "grads", "optimizer"})
    expect_no_scores(std::string(scope) + " { head_dim -> all }");
}

CompileRequest request_of(const char* model, const char* layout, int64_t ranks, const char* positions) {
  CompileRequest request;
  request.files = {RING};
  request.model = model;
  request.layout = layout;
  request.mesh = {{"ctx", ranks}};
  request.set = {{"seq", positions}};
  return request;
}

Compiled compiled(const CompileRequest& request) {
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> result = compile(request, sources, sink);
  EXPECT_TRUE(result);
  return std::move(*result);
}

/// What a rank sends of keys and values, forward: each as often as it goes round.
std::vector<int64_t> sent_forward(const Compiled& of) {
  std::vector<int64_t> bytes;
  for (const PlannedCollective& one : predict(of.sharded()).collectives)
    if (one.kind == CollectiveKind::ring && one.phase == std::string_view("forward")) bytes.push_back(one.bytes);
  return bytes;
}

// Two heads of keys are sent, not the six of queries that read them; and no further than the window of 3 reaches: from
// a part of 6 into the one before, of the two stretches of 3 that a rank has in zigzag into one of each neighbour.
TEST(Ring, sends_what_a_window_reaches) {
  const int64_t row = 4 * 2 * 4, head_dim = 3, value = 5;  // batch, heads of keys, bytes
  const auto sent = [&](int64_t rows) { return std::vector{rows * row * head_dim, rows * row * value}; };
  EXPECT_EQ(sent_forward(compiled(request_of("Near", "own", 4, "24"))), sent(6));
  EXPECT_EQ(sent_forward(compiled(request_of("Near", "zigzag", 4, "24"))), sent(12));
  EXPECT_EQ(sent_forward(compiled(request_of("Near", "own", 12, "24"))), sent(2));
  EXPECT_EQ(sent_forward(compiled(request_of("Near", "own", 24, "24"))), sent(2));
  // Of keys that lie 2 to 5 before a query those of a part of 2 go to the next three; their values are x itself.
  const std::vector<int64_t> before = sent_forward(compiled(request_of("Before", "own", 12, "24")));
  EXPECT_EQ(before.back(), 6 * 4 * 8 * 4);
  EXPECT_EQ(sent_forward(compiled(request_of("Causal", "own", 4, "24"))),
            (std::vector{18 * row * head_dim, 18 * row * value}));
}

/// By how much the busiest rank's attention exceeds the mean.
double busiest(const CompileRequest& request) {
  const Compiled of = compiled(request);
  const ShardedGraph& sharded = of.sharded();
  double most = 0;
  for (const Node& node : sharded.graph.nodes) {
    if (std::holds_alternative<LoopOp>(node.op)) continue;
    const std::vector<Factor> factors = definition(node.op).factors(sharded.graph, node);
    if (std::ranges::any_of(factors, [](const Factor& factor) { return factor.circulates; }))
      most = std::max(
          most, largest_share(sharded.graph, sharded.layout.mesh, node, factors, sharded.placement(node.inputs[0])));
  }
  return most;
}

// Of the square below the diagonal the last of four blocks has 7 sixteenths, a pair of stretches in zigzag a quarter.
TEST(Ring, knows_which_rank_is_busiest) {
  EXPECT_NEAR(busiest(request_of("Causal", "own", 4, "24")), 7.0 / 4, 1e-12);
  EXPECT_NEAR(busiest(request_of("Causal", "own", 2, "24")), 3.0 / 2, 1e-12);
  EXPECT_NEAR(busiest(request_of("Causal", "zigzag", 4, "24")), 1, 1e-12);
  EXPECT_NEAR(busiest(request_of("Shared", "own", 4, "24")), 1, 0.1);
}

/// Of a block of the queries.
TEST(Ring, is_predicted_to_take_as_long_as_its_busiest_rank) {
  const auto seconds = [](const char* layout) {
    return predict(compiled(request_of("Causal", layout, 4, "4096")).sharded()).compute_seconds;
  };
  EXPECT_GT(seconds("own"), 1.6 * seconds("zigzag"));
}

// Without queries that are split over the axis there is nothing to meet part by part.
TEST(Ring, is_none_where_a_rank_has_the_sequence) { EXPECT_EQ(rings(compiled({{"data", 4}, {"ctx", 1}})), Rings{}); }

}  // namespace
}  // namespace mesh
