// perceptron.h: the two-layer model whose communication is known by hand, built without the front end.
#pragma once
#include "codegen/entries.h"
#include "codegen/graph/builder.h"
#include "codegen/layout/place.h"

namespace mesh::testing {

struct Perceptron {
  Graph graph;
  DimId batch, io, hidden;

  /// h = relu(x w + bias), y = h v, loss = mean((y - t)^2), sgd.
  Perceptron(int64_t b, int64_t i, int64_t h) {
    graph.model = "Perceptron";
    graph.bodies.resize(1);
    GraphBuilder build(graph);
    batch = build.dim("batch", b);
    io = build.dim("io", i);
    hidden = build.dim("hidden", h);
    const auto stored = [&](StoredKind kind, const char* name, const std::vector<DimId>& dims) {
      const StoredId id = build.stored(kind, name, {Type::f32, {}, dims}, {});
      return graph.stored[id.index].value;
    };
    const ValueId x = stored(StoredKind::input, "x", {batch, io}), t = stored(StoredKind::input, "t", {batch, io});
    const ValueId w = stored(StoredKind::parameter, "w", {io, hidden}),
                  bias = stored(StoredKind::parameter, "bias", {hidden});
    const ValueId v = stored(StoredKind::parameter, "v", {hidden, io});
    const DimId over_io[] = {io}, over_hidden[] = {hidden}, over_all[] = {batch, io};
    const ValueId inner = build.map(MapFunction::relu, {build.add(build.dot(x, w, over_io), bias)});
    graph.value(inner).name = "h";
    const ValueId y = build.dot(inner, v, over_hidden);
    graph.value(y).name = "y";
    const ValueId square = build.map(MapFunction::square, {build.subtract(y, t)});
    const ValueId count = build.reduce(Reduce::sum, build.broadcast(build.literal(1, Type::f32), over_all), over_all);
    const ValueId loss = build.divide(build.reduce(Reduce::sum, square, over_all), count);
    graph.value(loss).name = "loss";
    graph.metrics.push_back({"loss", loss, {}});
    graph.sample_dim = batch;
    Objective objective;
    objective.loss = loss;
    objective.optimizer = "sgd";
    objective.rate.factors = {{"constant", {{"rate", 0.1}}}};
    for (uint32_t s = 2; s < 5; ++s) objective.parameters.push_back({StoredId{s}, {}, {}});
    graph.objective = objective;
  }

  /// A mesh of the given axes, the last innermost, and a rule a pair.
  static Layout layout(const std::vector<std::pair<std::string, int64_t>>& axes,
                       const std::vector<std::pair<DimId, std::vector<AxisId>>>& rules) {
    Layout layout;
    int64_t stride = 1;
    for (const auto& [name, size] : axes) layout.mesh.axes.push_back({name, size, 1, {}});
    for (size_t i = layout.mesh.axes.size(); i-- > 0;) {
      layout.mesh.axes[i].stride = stride;
      stride *= layout.mesh.axes[i].size;
    }
    for (auto& [dim, to] : rules) layout.rules.push_back({{dim}, to, {}, RuleScope::general, {}, {}, {}});
    return layout;
  }
};

}  // namespace mesh::testing
