#include "tests/emit/new_op.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_context.h"
#include "codegen/emit/emit_program.h"
#include "codegen/emit/emit_steps.h"
#include "codegen/entries.h"
#include "codegen/graph/ops/definitions.h"
#include "codegen/interpret/steps.h"
#include "codegen/layout/place.h"
#include "codegen/optimizer/want.h"
#include "codegen/program/extent.h"
#include "codegen/program/lower.h"
#include "codegen/program/lowering.h"
#include "codegen/program/print_program.h"
#include "codegen/program/step.h"
#include "tests/program/models.h"

namespace mesh::tests {
namespace {

// ---- the op: (x) -> x[i] * x[i + 1] along a dim, at whose end the first element comes again

extern const OpKind neighbour_product;
extern const StepDefinition neighbour_step;

Op neighbours(DimId dim) { return DefinedOp{&neighbour_product, {dim}, {}}; }
DimId dim_of(const Node& node) { return std::get<DefinedOp>(node.op).dims[0]; }

ops::Horizons horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  return ops::horizon_along(graph, node, of, {dim_of(node)}, "goes round the ends of");
}

ops::Types types(const Graph& graph, const Node& node) {
  ops::require_operands(graph, node, 1, 1);
  ops::require_dims(graph, node, 0, {dim_of(node)});
  return {ops::operand(graph, node, 0)};
}

std::vector<Factor> factors(const Graph& graph, const Node& node) {
  return ops::factors_but_whole(graph, node, {dim_of(node)});
}

/// d_x[i] = d[i] * x[i + 1] + d[i - 1] * x[i - 1]
std::vector<ValueId> gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d, const std::vector<bool>&) {
  const DimId dim = dim_of(build.graph.node(id));
  const ValueId x = build.graph.node(id).inputs[0];
  const auto beside = [&](ValueId value, int64_t distance) {
    return build.value(ShiftOp{dim, distance, Edge{Edge::Kind::wrap}}, {value});
  };
  return {build.add(build.multiply(d[0], beside(x, 1)), beside(build.multiply(d[0], x), -1))};
}

std::string text(const Graph& graph, const DefinedOp& op) {
  return fmt::format("neighbour_product[{}]", graph.dim(op.dims[0]).name);
}

void lower_neighbours(Lowering& to, const Node& node) {
  const Access result = to.allocate(node.results[0]);
  Dims order;
  for (const LocalDim& local : dims_of(to.program(), result)) order.push_back(local.dim);
  const Access x = to.in_order(to.in_memory(node.inputs[0]), order);
  to.emit(DefinedStep{&neighbour_step, {x}, {result}, {dim_of(node)}, {}});
}

constinit const OpKind neighbour_product{
    .definition =
        {
            .name = "neighbour_product",
            .called = nullptr,
            .infer = types,
            .factors = factors,
            .partial = ops::completes,
            .gradient = gradient,
            .expand = nullptr,
            .reduction = nullptr,
            .number = nullptr,
            .names_dims_alike = false,
            .works_along_dims = true,
            .causality = horizon,
            .flops = ops::one_each,
            .effort = ops::costs<Effort::dear>,
            .narrow = Narrow::widened,
            .reads_elements = ops::in_memory,
            .formula = ops::no_formula,
            .memory_order = ops::order_of_operand,
        },
    .text = text,
    .lower = lower_neighbours,
    .by_neighbours = nullptr,
};

// ---- its step: lines of `dim`, each [size, inner], one after the other

std::string step_text(const Program& program, const DefinedStep& step) {
  return fmt::format("neighbour product {} = {}", to_string(program, step.writes[0]),
                     to_string(program, step.reads[0]));
}

void verify(const Program& program, const DefinedStep& step, const std::function<void(const std::string&)>& say) {
  if (!std::ranges::equal(dims_of(program, step.reads[0]), dims_of(program, step.writes[0])))
    say("gives a value that lies otherwise than its operand");
}

size_t position(const Program& program, const DefinedStep& step) {
  const auto dims = dims_of(program, step.reads[0]);
  return static_cast<size_t>(std::ranges::find(dims, step.dims[0], &LocalDim::dim) - dims.begin());
}

std::string shapes(const EmitContext& context, const DefinedStep& step) { return local_shape(context, step.reads[0]); }

void emit(EmitContext& context, CppWriter& out, const DefinedStep& step) {
  const auto dims = dims_of(context.program, step.reads[0]);
  const size_t at = position(context.program, step);
  const std::string x = address(context, step.reads[0]), y = address(context, step.writes[0]);
  const std::string size = context.names.extent(dims[at]), inner = context.names.product(dims.subspan(at + 1));
  const auto lines = out.block(fmt::format("for (int64_t o = 0; o < {}; ++o)", context.names.product(dims.first(at))));
  const auto points = out.block(fmt::format("for (int64_t k = 0; k < {}; ++k)", size));
  const auto within = out.block(fmt::format("for (int64_t i = 0; i < {}; ++i)", inner));
  const auto element = [&](const std::string& of, const std::string& place) {
    return fmt::format("({})[(o * ({}) + {}) * ({}) + i]", of, size, place, inner);
  };
  const std::string next = fmt::format("(k + 1) % ({})", size);
  out.line(fmt::format("{} = {} * {};", element(y, "k"), element(x, "k"), element(x, next)));
}

Task bind(Binding& binding, const DefinedStep& step) {
  const auto dims = dims_of(binding.program, step.reads[0]);
  const size_t at = position(binding.program, step);
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != at) (i < at ? outer : inner) *= binding.extent(dims[i]);
  return [&binding, outer, inner, size = binding.extent(dims[at]), from = Pointer(binding, step.reads[0]),
          to = Pointer(binding, step.writes[0])] {
    const float* x = reinterpret_cast<const float*>(from.at(binding));
    float* y = reinterpret_cast<float*>(to.at(binding));
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < size; ++k)
        for (int64_t i = 0; i < inner; ++i)
          y[(o * size + k) * inner + i] = x[(o * size + k) * inner + i] * x[(o * size + (k + 1) % size) * inner + i];
  };
}

constinit const StepDefinition neighbour_step{
    .name = "neighbour product",
    .is_light = false,
    .convolves = false,
    .text = step_text,
    .verify = verify,
    .shapes = shapes,
    .emit = emit,
    .bind = bind,
};

}  // namespace

Graph neighbour_model() {
  Graph graph;
  graph.model = "Neighbours";
  graph.bodies.emplace_back();
  graph.objective.emplace();
  graph.objective->optimizer = "sgd";
  graph.objective->rate.factors = {{"constant", {{"rate", 0.125}}}};
  GraphBuilder build(graph);
  const DimId batch = build.dim("batch", batch_size), point = build.dim("point", point_size);
  graph.sample_dim = batch;
  const auto stored = [&](StoredKind kind, const std::string& path, std::vector<DimId> dims, meshrt::Initial initial) {
    return build.stored(kind, path, {Type::f32, {}, std::move(dims)}, initial);
  };
  const StoredId x = stored(StoredKind::input, "x", {batch, point}, {}),
                 t = stored(StoredKind::input, "t", {batch, point}, {});
  const StoredId w = stored(StoredKind::parameter, "w", {point}, {meshrt::Initial::Kind::normal, 0, 1});
  graph.objective->parameters.push_back({w, {}, {}});
  const auto value = [&](StoredId id) { return graph.stored[id.index].value; };
  const ValueId y = build.multiply(value(x), value(w));
  const ValueId z = build.value(neighbours(point), {y});
  graph.value(z).name = "z";
  graph.names["z"] = z;
  const DimId all[] = {batch, point};
  const ValueId squares = build.map(MapFunction::square, {build.subtract(z, value(t))});
  const ValueId loss = build.multiply(build.reduce(Reduce::sum, squares, all), 1.0 / (batch_size * point_size));
  graph.value(loss).name = "loss";
  graph.names["loss"] = loss;
  graph.objective->loss = loss;
  graph.metrics.push_back({"loss", loss, {}});
  return graph;
}

const std::vector<NewOpCase>& new_op_cases() {
  static const std::vector<NewOpCase> all = {
      {"whole", {}}, {"samples", {{"batch", "x"}}}, {"points", {{"point", "x"}}}};
  return all;
}

ShardedGraph neighbours_placed(const NewOpCase& one) {
  Graph graph = differentiated(neighbour_model());
  DiagnosticSink sink;
  want_gradients(graph, {"grad(w)"}, sink);
  return place(completed(graph), layout(graph, {{"x", 2}}, one.rules), {});
}

Program neighbours_lowered(const NewOpCase& one) {
  const Graph model = neighbour_model();
  return lower(std::vector<Entry>{{.name = "train", .meaning = "one step", .sharded = neighbours_placed(one)},
                                  {.name = "evaluate",
                                   .meaning = "evaluation",
                                   .sharded = place(evaluation(model), layout(model, {{"x", 2}}, one.rules), {}),
                                   .over_batches = true}});
}

std::string neighbours_emitted(const NewOpCase& one) {
  return emit_program(neighbours_lowered(one), {},
                      {"neighbours.mesh", "0", "meshc build neighbours.mesh", "0.0", "f32"});
}

}  // namespace mesh::tests
