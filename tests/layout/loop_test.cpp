// Loops: stacked parameters, stashes, gradients that stay partial until the loop is over.
#include <gtest/gtest.h>

#include "codegen/graph/print_graph.h"
#include "codegen/layout/print_sharded.h"
#include "tests/layout/perceptron.h"

namespace mesh::testing {
namespace {

/// h = relu(h w[layer]) + h shared, layer times; loss = sum(h).
struct Stack {
  Graph graph;
  DimId batch, wide, mid, layer;
  Stack() {
    graph.model = "Stack";
    graph.bodies.resize(1);
    GraphBuilder build(graph);
    batch = build.dim("batch", 8);
    wide = build.dim("wide", 16);
    mid = build.dim("mid", 16);
    layer = build.dim("layer", 3);
    const auto stored = [&](StoredKind kind, const char* name, const std::vector<DimId>& dims) {
      return graph.stored[build.stored(kind, name, {Type::f32, {}, dims}, {}).index].value;
    };
    const ValueId x = stored(StoredKind::input, "x", {batch, wide});
    const ValueId w = stored(StoredKind::parameter, "w", {layer, wide, mid}),
                  shared = stored(StoredKind::parameter, "shared", {wide, mid});
    const NodeId node{static_cast<uint32_t>(graph.nodes.size())};
    graph.nodes.push_back({LoopOp{}, {}, {}, graph.root(), Part::forward, {}, {}});
    graph.bodies[0].nodes.push_back(node);
    LoopOp loop;
    loop.dim = layer;
    loop.body = build.new_body(node);
    GraphBuilder inside(graph);
    inside.body = loop.body;
    const ValueId h = inside.argument(graph.type(x), loop.body, node, "h"),
                  turn = inside.argument(graph.type(shared), loop.body, node, "w");
    const DimId over[] = {wide};
    const ValueId a = inside.map(MapFunction::relu, {inside.dot(h, turn, over)}), b = inside.dot(h, shared, over);
    const ValueId next = inside.rename(inside.add(a, b), mid, wide);
    graph.values.push_back({graph.type(x), node, graph.root(), "h"});
    const ValueId result{static_cast<uint32_t>(graph.values.size() - 1)};
    loop.carries.push_back({x, h, next, result});
    loop.slices.push_back({w, turn});
    graph.node(node).op = loop;
    graph.node(node).inputs = {x, w};
    graph.node(node).results = {result};
    const DimId all[] = {batch, wide};
    const ValueId loss = build.reduce(Reduce::sum, result, all);
    graph.metrics.push_back({"loss", loss, {}});
    Objective objective;
    objective.loss = loss;
    objective.optimizer = "sgd";
    objective.rate.factors = {{"constant", {{"rate", 0.1}}}};
    objective.parameters = {{StoredId{1}, {}, {}}, {StoredId{2}, {}, {}}};
    graph.objective = objective;
  }
};

int count(const ShardedGraph& sharded, CollectiveKind kind, bool in_loop) {
  int n = 0;
  for (uint32_t b = 0; b < sharded.graph.bodies.size(); ++b)
    for (NodeId id : sharded.graph.bodies[b].nodes)
      if (const ReshardOp* op = std::get_if<ReshardOp>(&sharded.graph.node(id).op))
        n += sharded.steps[op->step].kind == kind && (b > 0) == in_loop;
  return n;
}

TEST(Loop, DataParallelGradientsAreReducedOnceAfterTheLoop) {
  Stack model;
  const ShardedGraph sharded =
      place(completed(differentiated(model.graph)), Perceptron::layout({{"data", 2}}, {{model.batch, {0}}}), Machine{});
  EXPECT_EQ(count(sharded, CollectiveKind::all_reduce, true), 0) << print_sharded(sharded);
  EXPECT_EQ(count(sharded, CollectiveKind::all_reduce, false), 3);  // w, shared, loss
}

TEST(Loop, SplitParametersAreGatheredTurnByTurn) {
  Stack model;
  Layout layout = Perceptron::layout({{"data", 2}}, {{model.batch, {0}}});
  layout.rules.push_back({{model.mid}, {0}, {}, RuleScope::params, {}, {}, {}});
  const ShardedGraph sharded = place(completed(differentiated(model.graph)), layout, Machine{});
  EXPECT_EQ(count(sharded, CollectiveKind::all_gather, true), 2) << print_sharded(sharded);  // w, forward and backward
  EXPECT_EQ(count(sharded, CollectiveKind::reduce_scatter, true), 1) << print_sharded(sharded);  // its gradient
}

/// What the steps of a kind send in all turns, from the rank that sends most.
int64_t sent(const ShardedGraph& sharded, CollectiveKind kind, int64_t turns) {
  int64_t bytes = 0;
  for (const ReshardStep& step : sharded.steps)
    if (step.kind == kind) bytes += sent_in(step, turns);
  return bytes;
}

TEST(Loop, EachTurnsParametersComeFromTheRankThatOwnsThem) {
  Stack model;
  constexpr int64_t matrix = 16 * 16 * 4, layers = 3;
  for (const auto& [ranks, deal, most] : {std::tuple<int64_t, Deal, int64_t>{2, Deal{}, 2},
                                          {3, Deal{}, 1},
                                          {4, Deal{}, 1},
                                          {2, meshrt::rounds(2, 2), 2},
                                          {2, meshrt::zigzag(2), 2}}) {
    Layout layout = Perceptron::layout({{"data", ranks}}, {{model.batch, {0}}});
    layout.rules.push_back({{model.layer}, {0}, {}, RuleScope::params, {}, {}, {}});
    layout.rules.back().deal = deal;
    const ShardedGraph sharded = place(completed(differentiated(model.graph)), layout, Machine{});
    const std::string text = print_sharded(sharded);
    // w, forward and backward; its gradient. Nothing of it moves outside of the loops.
    EXPECT_EQ(count(sharded, CollectiveKind::broadcast, true), 2) << text;
    EXPECT_EQ(count(sharded, CollectiveKind::reduce, true), 1) << text;
    EXPECT_EQ(count(sharded, CollectiveKind::all_gather, false), 0) << text;
    EXPECT_EQ(sent(sharded, CollectiveKind::broadcast, layers), 2 * (ranks - 1) * most * matrix) << text;
    const int64_t fewest = ranks > layers ? 0 : 1;
    EXPECT_EQ(sent(sharded, CollectiveKind::reduce, layers), (layers - fewest) * matrix) << text;
    EXPECT_NE(text.find("at data of its turn of layer"), std::string::npos) << text;
  }
}

TEST(Loop, WhatIsKeptOfATurnIsKeptByItsOwnerWhereARuleSaysSo) {
  Stack model;
  const ShardedGraph sharded =
      place(completed(differentiated(model.graph)), Perceptron::layout({{"pipe", 2}}, {{model.layer, {0}}}), Machine{});
  for (const Node& node : sharded.graph.nodes) {
    const auto* loop = std::get_if<LoopOp>(&node.op);
    if (!loop) continue;
    for (const auto& kept : loop->collects)
      EXPECT_EQ(sharded.placement(kept.stacked).dims[0].axes, std::vector<AxisId>{0});
  }
  // A slot is kept without a byte sent.
  EXPECT_GT(count(sharded, CollectiveKind::slice, true), 0) << print_sharded(sharded);
}

}  // namespace
}  // namespace mesh::testing
