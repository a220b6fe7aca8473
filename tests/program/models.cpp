#include "tests/program/models.h"

#include <algorithm>

#include "codegen/entries.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/place.h"

namespace mesh::tests {

namespace {

using F = MapFunction;

ValueId named(GraphBuilder& build, ValueId value, const std::string& name) {
  build.graph.value(value).name = name;
  build.graph.names[name] = value;
  return value;
}

meshrt::Initial normal() { return {meshrt::Initial::Kind::normal, 0, 0.02}; }

ValueId parameter(GraphBuilder& build, const std::string& path, std::vector<DimId> dims) {
  const StoredId id = build.stored(StoredKind::parameter, path, {Type::f32, {}, std::move(dims)}, normal());
  build.graph.objective->parameters.push_back({id, {}, {}});
  return build.graph.stored[id.index].value;
}

ValueId input(GraphBuilder& build, const std::string& path, ValueType type) {
  return build.graph.stored[build.stored(StoredKind::input, path, std::move(type), {}).index].value;
}

Graph empty(const std::string& name) {
  Graph graph;
  graph.model = name;
  graph.bodies.emplace_back();
  graph.objective.emplace();
  graph.objective->optimizer = "adamw";
  graph.objective->values = {
      {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}, {"bias_correction", 1}};
  graph.objective->rate.factors = {{"constant", {{"rate", 1e-3}}}};
  return graph;
}

/// mean over `dims` of x: sum / count.
ValueId mean(GraphBuilder& build, ValueId x, std::vector<DimId> dims) {
  const ValueId ones = build.broadcast(build.literal(1, Type::f32), dims);
  return build.divide(build.reduce(Reduce::sum, x, dims), build.reduce(Reduce::sum, ones, dims));
}

void minimize(GraphBuilder& build, ValueId loss) {
  named(build, loss, "loss");
  build.graph.objective->loss = loss;
  build.graph.metrics.push_back({"loss", loss, {}});
}

}  // namespace

Graph perceptron() {
  Graph graph = empty("Perceptron");
  GraphBuilder build(graph);
  const DimId batch = build.dim("batch", 6), pixel = build.dim("pixel", 7), hidden = build.dim("hidden", 10),
              kind = build.dim("class", 5);
  graph.sample_dim = batch;
  const ValueId image = input(build, "image", {Type::f32, {}, {batch, pixel}});
  const ValueId label = input(build, "label", {Type::i32, kind, {batch}});
  const ValueId w1 = parameter(build, "w1", {pixel, hidden}), b1 = parameter(build, "b1", {hidden});
  const ValueId w2 = parameter(build, "w2", {hidden, kind}), b2 = parameter(build, "b2", {kind});
  const DimId over[] = {kind};

  const ValueId h = named(build, build.map(F::relu, {build.add(build.dot(image, w1, {{pixel}}), b1)}), "h");
  const ValueId logits = named(build, build.add(build.dot(h, w2, {{hidden}}), b2), "logits");
  const ValueId hit = build.map(F::equal, {build.position(kind), label});
  const ValueId right = build.reduce(
      Reduce::sum, build.map(F::where, {build.broadcast(hit, {}), logits, build.literal(0, Type::f32)}), over);
  const ValueId entropy = build.subtract(build.value(LogSumExpOp{{kind}}, {logits}), right);
  minimize(build, mean(build, entropy, {batch}));
  const ValueId best = build.value(ArgReduceOp{true, kind}, {logits});
  const ValueId accuracy = mean(build, build.cast(build.map(F::equal, {best, label}), Type::f32), {batch});
  graph.metrics.push_back({"accuracy", accuracy, {}});
  return graph;
}

Graph residual() {
  Graph graph = empty("Residual");
  graph.objective->values["clip"] = 1;
  GraphBuilder build(graph);
  const DimId batch = build.dim("batch", 4), embed = build.dim("embed", 6), wide = build.dim("wide", 8),
              layer = build.dim("layer", 3);
  graph.sample_dim = batch;
  const ValueId x = input(build, "x", {Type::f32, {}, {batch, embed}});
  const ValueId up = parameter(build, "layer.up", {layer, embed, wide}),
                down = parameter(build, "layer.down", {layer, wide, embed});
  const ValueId gain = parameter(build, "layer.gain", {layer, embed});

  const NodeId node{static_cast<uint32_t>(graph.nodes.size())};
  graph.nodes.emplace_back();
  const BodyId body = build.new_body(node);
  graph.body(graph.root()).nodes.push_back(node);
  LoopOp loop{layer, body, false, {}, {}, {}, {}};
  const auto slice = [&](ValueId stacked) {
    ValueType type = graph.type(stacked);
    type.dims.erase(type.dims.begin());
    const ValueId turn = build.argument(type, body, node, graph.value(stacked).name);
    loop.slices.push_back({stacked, turn});
    return turn;
  };
  const ValueId up_turn = slice(up), down_turn = slice(down), gain_turn = slice(gain);
  const ValueId entering = build.argument(graph.type(x), body, node, "h");
  build.body = body;
  build.scope = "layer";
  const DimId over[] = {embed};
  const auto average = [&](ValueId v) { return build.multiply(build.reduce(Reduce::sum, v, over), 1.0 / 6); };
  const ValueId centred = build.subtract(entering, average(entering));
  const ValueId deviation = build.map(F::rsqrt, {build.add(average(build.map(F::square, {centred})), 1e-5)});
  const ValueId normal = named(build, build.multiply(build.multiply(centred, deviation), gain_turn), "layer.norm");
  const ValueId f = named(build, build.map(F::gelu, {build.dot(normal, up_turn, {{embed}})}), "layer.f");
  const ValueId leaving = named(build, build.add(entering, build.dot(f, down_turn, {{wide}})), "layer.h");
  build.body = graph.root();
  build.scope = "";
  const ValueId result = build.argument(graph.type(x), graph.root(), node, "h");
  loop.carries.push_back({x, entering, leaving, result});
  graph.node(node) = {loop, {}, {}, graph.root(), Part::forward, {}, "layer"};
  connect_loop(graph.node(node));
  const ValueId loss = build.map(F::square, {result});
  minimize(build, mean(build, loss, {batch, embed}));
  return graph;
}

Layout layout(const Graph& graph, const std::vector<std::pair<std::string, int64_t>>& axes,
              const std::vector<std::pair<std::string, std::string>>& rules) {
  Layout result;
  result.name = "test";
  result.mesh.name = "test";
  int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    result.mesh.axes.insert(result.mesh.axes.begin(), {axis->first, axis->second, stride, {}});
    stride *= axis->second;
  }
  for (const auto& [name, axis] : rules) {
    Rule rule;
    for (uint32_t d = 0; d < graph.dims.size(); ++d)
      if (graph.dims[d].name == name) rule.dims = {DimId{d}};
    for (AxisId a = 0; a != result.mesh.axes.size(); ++a)
      if (result.mesh.axes[a].name == axis) rule.axes = {a};
    result.rules.push_back(rule);
  }
  return result;
}

Graph evaluation(const Graph& model) {
  Graph graph = model;
  keep_metrics(graph);
  return completed(graph);
}

std::vector<Entry> placed(const Graph& model, const Layout& layout) {
  return {{.name = "train", .meaning = "one step", .sharded = place(completed(differentiated(model)), layout, {})},
          {.name = "evaluate",
           .meaning = "evaluation",
           .sharded = place(evaluation(model), layout, {}),
           .over_batches = true}};
}

}  // namespace mesh::tests
