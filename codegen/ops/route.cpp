// route.cpp: which token goes to which expert: indices of slots for tokens, and of tokens for slots. Tokens, choices
// and slots of a group stay whole, for who comes first is known to who sees all; groups may be split.
#include "codegen/ops/route.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_steps.h"
#include "codegen/graph/ops/definitions.h"
#include "codegen/interpret/steps.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"
#include "codegen/program/print_program.h"
#include "codegen/program/step.h"
#include "meshrt/route.h"

namespace mesh {
namespace {

extern const OpKind route_kind;
extern const StepDefinition route_step;

/// Of an op, and of its step.
Route routed(const auto& op) {
  return {op.dims[0], op.dims[1], op.dims[2], op.dims[3], op.dims[4], op.numbers[0] != 0};
}
Route routed(const Node& node) { return routed(std::get<DefinedOp>(node.op)); }

Dims own_dims(const Route& route) { return route.choice ? Dims{route.token, route.choice} : Dims{route.token}; }

// ---- types, layouts

ops::Types route_types(const Graph& graph, const Node& node) {
  const Route route = routed(node);
  ops::require_operands(graph, node, 1, 2);
  for (size_t i = 0; i < node.inputs.size(); ++i) ops::require_dims(graph, node, i, own_dims(route));
  const ValueType& chosen = ops::operand(graph, node, 0);
  ops::require(chosen.element == Type::i32, graph, node, "choices are of type i32");
  ops::require(graph.dim(route.seat).size == graph.dim(route.expert).size * graph.dim(route.slot).size, graph, node,
               "there are more seats than slots");
  Dims source = ops::without(chosen.dims, own_dims(route));
  source.push_back(route.seat);
  return {{Type::i32, route.seat, chosen.dims}, {Type::i32, route.token, source}};
}

std::vector<Factor> route_factors(const Graph& graph, const Node& node) {
  const Route route = routed(node);
  return ops::factors_but_whole(graph, node, {route.token, route.choice, route.seat});
}

ops::Horizons route_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  return ops::horizon_along(graph, node, of, {routed(node).token}, "deals out slots to all of");
}

/// Groups as they lie, then what the op works on.
Dims route_order(const MemoryOrders& orders, const Node& node, size_t result) {
  const Route route = routed(node);
  const Dims own = own_dims(route);
  Dims order = ops::without(orders.of(node.inputs[0]), own);
  if (result == 0) order.insert(order.end(), own.begin(), own.end());
  else order.push_back(route.seat);
  return order;
}

std::string route_text(const Graph& graph, const auto& op) {
  const Route route = routed(op);
  return fmt::format("route[{}, {}{}]", graph.dim(route.expert).name, graph.dim(route.slot).name,
                     route.once ? ", next" : "");
}

// ---- lowering

void lower_route(Lowering& to, const Node& node) {
  const Route route = routed(node);
  Access chosen = to.in_memory(node.inputs[0]);
  Dims groups;
  for (const LocalDim& local : dims_of(to.program(), chosen))
    if (!has(own_dims(route), local.dim)) groups.push_back(local.dim);
  const auto with = [&](std::initializer_list<DimId> more) {
    Dims order = groups;
    for (const DimId dim : more)
      if (dim) order.push_back(dim);
    return order;
  };
  const Dims of_tokens = with({route.token, route.choice}), of_slots = with({route.seat});
  std::vector<Access> reads{to.in_order(chosen, of_tokens)};
  if (node.inputs.size() > 1) reads.push_back(to.in_order(to.in_memory(node.inputs[1]), of_tokens));
  std::vector<Access> results, made;
  for (const size_t i : {0, 1}) {
    const Dims& order = i == 0 ? of_tokens : of_slots;
    results.push_back(to.allocate(node.results[i]));
    made.push_back(to.lies_in(results[i], order) ? results[i] : to.turned(results[i], order));
  }
  to.emit(DefinedStep{&route_step, reads, made, std::get<DefinedOp>(node.op).dims, {route.once}});
  for (const size_t i : {0, 1})
    if (made[i] != results[i]) to.emit(CopyStep{made[i], results[i]});
}

// ---- the step

std::string route_step_text(const Program& program, const DefinedStep& step) {
  return fmt::format("{} {}, {} = {}{}", route_text(program.sharded.graph, step), to_string(program, step.writes[0]),
                     to_string(program, step.writes[1]), to_string(program, step.reads[0]),
                     step.reads.size() > 1 ? " by " + to_string(program, step.reads[1]) : "");
}

std::span<const LocalDim> groups_of(const Program& program, const DefinedStep& step) {
  const auto dims = dims_of(program, step.reads[0]);
  return dims.first(dims.size() - own_dims(routed(step)).size());
}

void verify_route(const Program& program, const DefinedStep& step, const std::function<void(const std::string&)>& say) {
  const Route route = routed(step);
  const auto groups = groups_of(program, step);
  const auto lies = [&](const Access& access, const Dims& own) {
    std::vector<LocalDim> expected(groups.begin(), groups.end());
    for (const DimId dim : own) expected.push_back({dim, {}});
    return std::ranges::equal(expected, dims_of(program, access));
  };
  const auto lies_as_tokens = [&](const Access& access) { return lies(access, own_dims(route)); };
  if (!std::ranges::all_of(step.reads, lies_as_tokens) || !lies_as_tokens(step.writes[0]))
    say("has values of its tokens that do not lie by groups, tokens and choices, these whole");
  if (!lies(step.writes[1], {route.seat}))
    say("has tokens of its slots that do not lie by groups and slots, these whole");
}

std::string route_shapes(const EmitContext& context, const DefinedStep& step) {
  return local_shape(context, step.reads[0]) + " -> " + local_shape(context, step.writes[1]);
}

void emit_route(EmitContext& context, CppWriter& out, const DefinedStep& step) {
  const Route route = routed(step);
  Names& names = context.names;
  const bool weighs = step.reads.size() > 1;
  const std::string element = weighs ? cpp_type(context.program.buffer(step.reads[1].buffer).type) : "float";
  out.line(fmt::format("meshrt::route<{}>({{{}, {}, {}, {}, {}{}}}, {}, {}, {}, {});", element,
                       names.product(groups_of(context.program, step)), names.size(route.token),
                       route.choice ? names.size(route.choice) : "1", names.size(route.expert), names.size(route.slot),
                       route.once ? ", true" : "", address(context, step.reads[0]),
                       weighs ? address(context, step.reads[1]) : "nullptr", address(context, step.writes[0]),
                       address(context, step.writes[1])));
}

template <class T>
Task route_by(Binding& binding, const DefinedStep& step) {
  const Route route = routed(step);
  const auto size = [&](DimId dim) { return dim ? binding.program.sharded.graph.dim(dim).size : 1; };
  meshrt::Routing routing{1, size(route.token), size(route.choice), size(route.expert), size(route.slot), route.once};
  for (const LocalDim& group : groups_of(binding.program, step)) routing.outer *= binding.extent(group);
  return [&binding, routing, chosen = Pointer(binding, step.reads[0]),
          weight = step.reads.size() > 1 ? Pointer(binding, step.reads[1]) : Pointer(),
          seat = Pointer(binding, step.writes[0]), source = Pointer(binding, step.writes[1])] {
    meshrt::route(routing, reinterpret_cast<const int32_t*>(chosen.at(binding)),
                  weight ? reinterpret_cast<const T*>(weight.at(binding)) : nullptr,
                  reinterpret_cast<int32_t*>(seat.at(binding)), reinterpret_cast<int32_t*>(source.at(binding)));
  };
}

Task bind_route(Binding& binding, const DefinedStep& step) {
  const Type type = step.reads.size() > 1 ? binding.buffer(step.reads[1]).type : Type::f32;
  return type == Type::f64 ? route_by<double>(binding, step) : route_by<float>(binding, step);
}

constinit const StepDefinition route_step{
    .name = "route",
    .is_light = false,
    .convolves = false,
    .text = route_step_text,
    .verify = verify_route,
    .shapes = route_shapes,
    .emit = emit_route,
    .bind = bind_route,
};

constinit const OpKind route_kind{
    .definition =
        {
            .name = "route",
            .called = nullptr,
            .infer = route_types,
            .factors = route_factors,
            .partial = ops::completes,
            .gradient = nullptr,
            .expand = nullptr,
            .reduction = nullptr,
            .number = nullptr,
            .names_dims_alike = false,
            .works_along_dims = true,
            .causality = route_horizon,
            .flops = ops::one_each,
            .effort = ops::costs<Effort::dear>,
            .narrow = Narrow::widened,
            .reads_elements = ops::in_memory,
            .formula = ops::no_formula,
            .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, route_order, nullptr},
        },
    .text = route_text<DefinedOp>,
    .lower = lower_route,
    .by_neighbours = nullptr,
};

}  // namespace

Op Route::op() const { return DefinedOp{&route_kind, {token, choice, expert, slot, seat}, {once}}; }

}  // namespace mesh
