#include "codegen/optimizer/loss_scale.h"

#include <limits>

#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/value_names.h"
#include "codegen/optimizer/norms.h"
#include "meshrt/optimizer_names.h"

namespace mesh {
namespace {

using F = MapFunction;

// Those of GradScaler, but for the bounds: between them 1 / scale is a normal number, and exact.
constexpr double growth = 2, backoff = 0.5, good_in_a_row = 2000;
constexpr double least = 0x1p-126, most = 0x1p126;

const Objective::Scaling* scaling_of(const Graph& graph) {
  return graph.objective && graph.objective->scaling ? &*graph.objective->scaling : nullptr;
}

ValueId stored_value(const GraphBuilder& build, StoredId id) { return build.graph.stored[id.index].value; }

}  // namespace

void declare_loss_scale(Graph& graph, const LossScale& scale) {
  if (!graph.objective) return;
  GraphBuilder build(graph);
  build.span = graph.objective->span;
  const std::string loss = graph.metrics.front().name;
  const auto kept = [&](const char* suffix, Type type, const meshrt::Initial& initial = {}) {
    return build.stored(StoredKind::optimizer, loss + suffix, {type, {}, {}}, initial);
  };
  Objective::Scaling scaling{scale.start};
  if (scale.dynamic) {
    scaling.scale = kept(meshrt::scale_suffix, Type::f32, {meshrt::Initial::Kind::constant, scale.start});
    scaling.good = kept(".good_steps", Type::i32);
  }
  scaling.skipped = kept(meshrt::skipped_suffix, Type::i32);
  graph.objective->scaling = scaling;
}

ValueId loss_scale(GraphBuilder& build) {
  const Objective::Scaling* scaling = scaling_of(build.graph);
  if (!scaling) return {};
  return scaling->scale ? stored_value(build, scaling->scale) : build.literal(scaling->start, Type::f32);
}

ValueId skipped_steps(GraphBuilder& build) {
  const Objective::Scaling* scaling = scaling_of(build.graph);
  return scaling ? stored_value(build, scaling->skipped) : ValueId{};
}

ValueId scaled_loss(Graph& graph) {
  const ValueId loss = graph.objective->loss;
  GraphBuilder build = beside(graph, graph.node(graph.value(loss).producer));
  const ValueId scale = loss_scale(build);
  return scale ? build.multiply(loss, build.cast(scale, graph.type(loss).element)) : loss;
}

void unscale_gradients(Graph& graph) {
  if (!scaling_of(graph)) return;
  GraphBuilder build(graph);
  build.part = Part::update;
  build.span = graph.objective->span;
  const ValueId share = build.divide(build.literal(1, Type::f32), loss_scale(build));
  graph.value(share).label = "unscale";
  for (auto& [name, value] : graph.names) {
    if (!is_gradient_name(name)) continue;
    const ValueId scaled = value;
    const ValueId unscaled = build.map(F::unscale, {scaled, build.cast(share, graph.type(scaled).element)});
    value = unscaled;
    graph.value(unscaled).label = known_as(graph, scaled);
    for_each_caller(graph, [&](ValueId& of) { of = of == scaled ? unscaled : of; });
  }
}

ValueId step_taken(GraphBuilder& build) {
  const ValueId step = build.value(StepOp{}, {}), skipped = skipped_steps(build);
  return skipped ? build.subtract(step, build.cast(skipped, Type::f64)) : step;
}

// GradScaler looks at every number; one pass for all, which clipping and logs share, is the norm. Where its squares are
// too large for f32 though no gradient is, above 1e19, clipping would make the gradients 0, and the optimizers' own
// squares of them are infinite: a step that is better not taken.
ValueId is_finite(GraphBuilder& build, const std::map<StoredId, ValueId>& gradients) {
  if (!scaling_of(build.graph)) return {};
  const ValueId norm = gradient_norm(build, gradients);
  if (!norm) return {};
  const Type type = build.graph.type(norm).element;
  const ValueId finite = build.map(F::less, {norm, build.literal(std::numeric_limits<double>::infinity(), type)});
  build.graph.value(finite).label = "finite";
  return finite;
}

ValueId if_finite(GraphBuilder& build, ValueId finite, StoredId of, ValueId now) {
  return finite ? build.map(F::where, {finite, now, build.computed(stored_value(build, of))}) : now;
}

void update_loss_scale(GraphBuilder& build, ValueId finite) {
  const Objective::Scaling* of = scaling_of(build.graph);
  if (!of || !finite) return;
  const Objective::Scaling scaling = *of;
  const ValueId skipped = stored_value(build, scaling.skipped);
  build.append(UpdateOp{scaling.skipped}, {build.map(F::where, {finite, skipped, build.add(skipped, 1)})});
  if (!scaling.scale) return;
  const ValueId scale = stored_value(build, scaling.scale), good = build.add(stored_value(build, scaling.good), 1);
  const auto number = [&](double value, ValueId like) { return build.literal(value, build.graph.type(like).element); };
  const ValueId grows = build.map(F::greater_equal, {good, number(good_in_a_row, good)});
  const ValueId larger = build.map(F::minimum, {build.multiply(scale, growth), number(most, scale)});
  const ValueId smaller = build.map(F::maximum, {build.multiply(scale, backoff), number(least, scale)});
  const ValueId kept = build.map(F::where, {grows, larger, scale});
  build.append(UpdateOp{scaling.scale}, {build.map(F::where, {finite, kept, smaller})});
  const ValueId counted = build.map(F::where, {grows, number(0, good), good});
  build.append(UpdateOp{scaling.good}, {build.map(F::where, {finite, counted, number(0, good)})});
}

}  // namespace mesh
