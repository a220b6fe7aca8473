// sort.cpp: sorting along one dim, and its gradient, which places elements at indices: all that the compiler knows of
// them. That dim stays whole; all others may be split. The runtime does the work (meshrt/sort.h). To read from the end:
// the definitions name all functions; `sort` and `top_k`, below them, are what a spec calls.
#include "codegen/ops/sort.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"
#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_steps.h"
#include "codegen/graph/ops/definitions.h"
#include "codegen/interpret/steps.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"
#include "codegen/program/print_program.h"
#include "codegen/program/step.h"
#include "meshrt/sort.h"

namespace mesh {
namespace {

extern const OpKind sort_kind, place_kind;
extern const StepDefinition sort_step, place_step;

/// What a DefinedOp or a DefinedStep stands for: the reverse of Sort::op.
Sort sorted_by(const auto& of) { return {of.dims[0], of.dims[1], of.numbers[0] != 0}; }
Sort sorted_by(const Node& node) { return sorted_by(std::get<DefinedOp>(node.op)); }

/// (indices: index(to), x) -> zero but for x's elements, each at its index along `to` in the place of `from`.
struct Place {
  DimId from, to;

  Op op() const { return DefinedOp{&place_kind, {from, to}, {}}; }
  static Place of(const auto& op) { return {op.dims[0], op.dims[1]}; }
  static Place of(const Node& node) { return of(std::get<DefinedOp>(node.op)); }
};

// ---- types, layouts, gradient

ops::Types sort_types(const Graph& graph, const Node& node) {
  const Sort sort = sorted_by(node);
  ops::require_operands(graph, node, 1, 1);
  ops::require_dims(graph, node, 0, {sort.dim});
  ops::require(graph.dim(sort.to).size <= graph.dim(sort.dim).size, graph, node, "more elements than there are");
  const ValueType values = with_dim(ops::operand(graph, node, 0), sort.dim, sort.to);
  return {values, {Type::i32, sort.dim, values.dims}};
}

ops::Types place_types(const Graph& graph, const Node& node) {
  const Place place = Place::of(node);
  ops::require_operands(graph, node, 2, 2);
  ops::require_dims(graph, node, 0, {place.from});
  ops::require_dims(graph, node, 1, {place.from});
  return {with_dim(ops::operand(graph, node, 1), place.from, place.to)};
}

std::vector<Factor> sort_factors(const Graph& graph, const Node& node) {
  return ops::factors_but_whole(graph, node, {sorted_by(node).dim, sorted_by(node).to});
}

std::vector<Factor> place_factors(const Graph& graph, const Node& node) {
  return ops::factors_but_whole(graph, node, {Place::of(node).from, Place::of(node).to});
}

std::vector<ValueId> sort_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                   const std::vector<bool>&) {
  const Node node = build.graph.node(id);
  const Sort sort = sorted_by(node);
  return {build.value(Place{sort.to, sort.dim}.op(), {node.results[1], d[0]})};
}

/// A comparison for each halving of the dim.
double comparisons(const Graph& graph, const Node& node) {
  return ops::one_each(graph, node) * std::log2(1 + static_cast<double>(graph.dim(sorted_by(node).dim).size));
}

ops::Horizons sort_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  return ops::horizon_along(graph, node, of, {sorted_by(node).dim}, "sorts all of");
}

ops::Horizons place_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  return ops::horizon_along(graph, node, of, {Place::of(node).from}, "puts in other places all of");
}

Dims sorted_order(const MemoryOrders& orders, const Node& node, size_t) {
  return replaced(orders.of(node.inputs[0]), {sorted_by(node).dim}, {sorted_by(node).to});
}

Dims placed_order(const MemoryOrders& orders, const Node& node, size_t) {
  return replaced(orders.of(node.inputs[1]), {Place::of(node).from}, {Place::of(node).to});
}

std::string sort_text(const Graph& graph, const auto& op) {
  const Sort sort = sorted_by(op);
  return fmt::format("sort[{} as {}{}]", graph.dim(sort.dim).name, graph.dim(sort.to).name,
                     sort.descending ? ", descending" : "");
}

std::string place_text(const Graph& graph, const auto& op) {
  return fmt::format("place[{} as {}]", graph.dim(Place::of(op).from).name, graph.dim(Place::of(op).to).name);
}

// ---- lowering

void lower_sort(Lowering& to, const Node& node) {
  const Sort sort = sorted_by(node);
  const Access values = to.allocate(node.results[0]);
  Dims order, result;
  for (const LocalDim& local : dims_of(to.program(), values)) {
    order.push_back(local.dim == sort.to ? sort.dim : local.dim);
    result.push_back(local.dim);
  }
  const Access indices = to.allocate(node.results[1]);
  const Access made = to.lies_in(indices, result) ? indices : to.turned(indices, result);
  const Access from = to.in_order(to.in_memory(node.inputs[0]), order);
  to.emit(DefinedStep{&sort_step, {from}, {values, made}, {sort.dim, sort.to}, {sort.descending}});
  if (made != indices) to.emit(CopyStep{made, indices});
}

void lower_place(Lowering& to, const Node& node) {
  const Place place = Place::of(node);
  const Access whole = to.allocate(node.results[0]);
  Dims order;
  for (const LocalDim& local : dims_of(to.program(), whole))
    order.push_back(local.dim == place.to ? place.from : local.dim);
  const Access indices = to.in_order(to.in_memory(node.inputs[0]), order);
  const Access from = to.in_order(to.in_memory(node.inputs[1]), order);
  to.emit(DefinedStep{&place_step, {indices, from}, {whole}, {place.from, place.to}, {}});
}

// ---- the steps: text and verification

using Say = std::function<void(const std::string&)>;

const Access& sorted_from(const DefinedStep& step) { return step.reads[0]; }
const Access& sorted_values(const DefinedStep& step) { return step.writes[0]; }
const Access& sorted_indices(const DefinedStep& step) { return step.writes[1]; }
const Access& placed_indices(const DefinedStep& step) { return step.reads[0]; }
const Access& placed_from(const DefinedStep& step) { return step.reads[1]; }
const Access& placed_to(const DefinedStep& step) { return step.writes[0]; }

/// Both lie alike but for one dim, whole in each.
void lie_alike_but(const Program& program, const Access& from, DimId from_dim, const Access& to, DimId to_dim,
                   const Say& say) {
  std::vector<LocalDim> expected;
  bool whole = false;
  for (const LocalDim& local : dims_of(program, from)) {
    const bool here = local.dim == from_dim;
    whole = whole || (here && local.placement == DimPlacement{});
    expected.push_back(here ? LocalDim{to_dim, {}} : local);
  }
  const Graph& graph = program.sharded.graph;
  if (!whole || !std::ranges::equal(expected, dims_of(program, to)))
    say(fmt::format("does not lead from whole {} to whole {} of a value that lies alike", graph.dim(from_dim).name,
                    graph.dim(to_dim).name));
}

void verify_sort(const Program& program, const DefinedStep& step, const Say& say) {
  const Sort sort = sorted_by(step);
  lie_alike_but(program, sorted_from(step), sort.dim, sorted_values(step), sort.to, say);
  if (!std::ranges::equal(dims_of(program, sorted_values(step)), dims_of(program, sorted_indices(step))))
    say("gives values and indices that lie in different orders");
}

void verify_place(const Program& program, const DefinedStep& step, const Say& say) {
  const Place place = Place::of(step);
  lie_alike_but(program, placed_from(step), place.from, placed_to(step), place.to, say);
  if (!std::ranges::equal(dims_of(program, placed_from(step)), dims_of(program, placed_indices(step))))
    say("has values and indices that lie in different orders");
}

std::string sort_step_text(const Program& program, const DefinedStep& step) {
  return fmt::format("{} {}, {} = {}", sort_text(program.sharded.graph, step), to_string(program, sorted_values(step)),
                     to_string(program, sorted_indices(step)), to_string(program, sorted_from(step)));
}

std::string place_step_text(const Program& program, const DefinedStep& step) {
  return fmt::format("{} {} = {} at {}", place_text(program.sharded.graph, step), to_string(program, placed_to(step)),
                     to_string(program, placed_from(step)), to_string(program, placed_indices(step)));
}

// ---- the steps: C++

std::string sort_shapes(const EmitContext& context, const DefinedStep& step) {
  return local_shape(context, sorted_from(step)) + " -> " + local_shape(context, sorted_values(step));
}

std::string place_shapes(const EmitContext& context, const DefinedStep& step) {
  return local_shape(context, placed_from(step)) + " -> " + local_shape(context, placed_to(step));
}

/// {outer, size, count, inner}
std::string lines(EmitContext& context, const Access& whole, DimId dim, DimId part) {
  const auto dims = dims_of(context.program, whole);
  const auto at = static_cast<size_t>(std::ranges::find(dims, dim, &LocalDim::dim) - dims.begin());
  return fmt::format("{{{}, {}, {}, {}}}", context.names.product(dims.first(at)), context.names.extent(dims[at]),
                     context.names.size(part), context.names.product(dims.subspan(at + 1)));
}

std::string element(const EmitContext& context, const Access& access) {
  return cpp_type(context.program.buffer(access.buffer).type);
}

void emit_sort(EmitContext& context, CppWriter& out, const DefinedStep& step) {
  const Sort sort = sorted_by(step);
  const Access& from = sorted_from(step);
  out.line(fmt::format("meshrt::sort_lines<{}>({}, {}, {}, {}, {});", element(context, from),
                       lines(context, from, sort.dim, sort.to), sort.descending ? "true" : "false",
                       address(context, from), address(context, sorted_values(step)),
                       address(context, sorted_indices(step))));
}

void emit_place(EmitContext& context, CppWriter& out, const DefinedStep& step) {
  const Place place = Place::of(step);
  const Access &from = placed_from(step), &to = placed_to(step);
  out.line(fmt::format("meshrt::place_lines<{}>({}, {}, {}, {});", element(context, from),
                       lines(context, to, place.to, place.from), address(context, placed_indices(step)),
                       address(context, from), address(context, to)));
}

// ---- the steps: interpreted

/// `whole` along `dim`, of which the other access holds `count` elements a line.
meshrt::Lines bound_lines(const Binding& binding, const Access& whole, DimId dim, DimId part) {
  meshrt::Lines lines{1, 1, binding.program.sharded.graph.dim(part).size, 1};
  bool after = false;
  for (const LocalDim& local : dims_of(binding.program, whole)) {
    const int64_t extent = binding.extent(local);
    if (local.dim == dim) lines.size = extent, after = true;
    else (after ? lines.inner : lines.outer) *= extent;
  }
  return lines;
}

template <class T>
Task sort_of(Binding& binding, const DefinedStep& step) {
  const Sort sort = sorted_by(step);
  return [&binding, lines = bound_lines(binding, sorted_from(step), sort.dim, sort.to), descending = sort.descending,
          from = Pointer(binding, sorted_from(step)), values = Pointer(binding, sorted_values(step)),
          indices = Pointer(binding, sorted_indices(step))] {
    meshrt::sort_lines(lines, descending, reinterpret_cast<const T*>(from.at(binding)),
                       reinterpret_cast<T*>(values.at(binding)), reinterpret_cast<int32_t*>(indices.at(binding)));
  };
}

template <class T>
Task place_of(Binding& binding, const DefinedStep& step) {
  const Place place = Place::of(step);
  return [&binding, lines = bound_lines(binding, placed_to(step), place.to, place.from),
          indices = Pointer(binding, placed_indices(step)), from = Pointer(binding, placed_from(step)),
          to = Pointer(binding, placed_to(step))] {
    meshrt::place_lines(lines, reinterpret_cast<const int32_t*>(indices.at(binding)),
                        reinterpret_cast<const T*>(from.at(binding)), reinterpret_cast<T*>(to.at(binding)));
  };
}

Task bind_sort(Binding& binding, const DefinedStep& step) {
  switch (const Type type = binding.buffer(sorted_from(step)).type) {
    case Type::f32: return sort_of<float>(binding, step);
    case Type::f64: return sort_of<double>(binding, step);
    case Type::bf16: return sort_of<meshrt::Bfloat16>(binding, step);
    case Type::f16: return sort_of<meshrt::Float16>(binding, step);
    case Type::i32: return sort_of<int32_t>(binding, step);
    case Type::i64: return sort_of<int64_t>(binding, step);
    case Type::u8: return sort_of<uint8_t>(binding, step);
    default: internal_error(std::string("the interpreter cannot sort ") + meshrt::name_of(type));
  }
}

Task bind_place(Binding& binding, const DefinedStep& step) {
  switch (const Type type = binding.buffer(placed_from(step)).type) {
    case Type::f32: return place_of<float>(binding, step);
    case Type::f64: return place_of<double>(binding, step);
    default: internal_error(std::string("the interpreter has no gradient of sorting ") + meshrt::name_of(type));
  }
}

// ---- all of it

constinit const StepDefinition sort_step{
    .name = "sort",
    .is_light = false,
    .convolves = false,
    .text = sort_step_text,
    .verify = verify_sort,
    .shapes = sort_shapes,
    .emit = emit_sort,
    .bind = bind_sort,
};

constinit const StepDefinition place_step{
    .name = "place",
    .is_light = false,
    .convolves = false,
    .text = place_step_text,
    .verify = verify_place,
    .shapes = place_shapes,
    .emit = emit_place,
    .bind = bind_place,
};

constinit const OpKind sort_kind{
    .definition =
        {
            .name = "sort",
            .called = nullptr,
            .infer = sort_types,
            .factors = sort_factors,
            .partial = ops::completes,
            .gradient = sort_gradient,
            .expand = nullptr,
            .reduction = nullptr,
            .number = nullptr,
            .names_dims_alike = false,
            .works_along_dims = true,
            .causality = sort_horizon,
            .flops = comparisons,
            .effort = ops::costs<Effort::dear>,
            .narrow = Narrow::handed_on,
            .reads_elements = ops::in_memory,
            .formula = ops::no_formula,
            .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, sorted_order, nullptr},
        },
    .text = sort_text<DefinedOp>,
    .lower = lower_sort,
    .by_neighbours = nullptr,
};

constinit const OpKind place_kind{
    .definition =
        {
            .name = "place",
            .called = nullptr,
            .infer = place_types,
            .factors = place_factors,
            .partial = ops::linear_in_each,
            .gradient = nullptr,
            .expand = nullptr,
            .reduction = nullptr,
            .number = nullptr,
            .names_dims_alike = false,
            .works_along_dims = true,
            .causality = place_horizon,
            .flops = ops::no_flops,
            .effort = ops::costs<Effort::dear>,
            .narrow = Narrow::widened,
            .reads_elements = ops::in_memory,
            .formula = ops::no_formula,
            .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, placed_order, nullptr},
        },
    .text = place_text<DefinedOp>,
    .lower = lower_place,
    .by_neighbours = nullptr,
};

}  // namespace

Op Sort::op() const { return DefinedOp{&sort_kind, {dim, to}, {descending}}; }

// ---- in the language

namespace elaboration::functions {
namespace {

/// The sorted values; their indices are the node's second result.
NodeId sorted(Elaboration& e, const CallSite& site, ValueId x, const Sort& sort) {
  e.build.span = site.span;
  return e.build.append(sort.op(), {x});
}

}  // namespace

Term sort(Elaboration& e, CallSite& site) {
  const ValueId x = tensor_with(e, site, site.dim(), site.dim_spans[0]);
  const auto descending = truth_option(e, site, "descending", false);
  if (!x || !descending || !is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  const NodeId node = sorted(e, site, x, {site.dim(), site.dim(), *descending});
  return Term::of(e.graph.node(node).results[0]);
}

/// The largest of each line and their indices, the largest first.
Term top_k(Elaboration& e, CallSite& site) {
  const auto dims = one_as_other(e, site);
  if (!dims) return Term::poison();
  const auto [from, to] = *dims;
  const Span brackets = site.items->front().span;
  const ValueId x = tensor_with(e, site, from, brackets);
  if (!x || !is_numeric(e, x, site.spans[0], site.name)) return Term::poison();
  if (e.size(to) > e.size(from)) {
    e.error("E0311", brackets, "there are no {} largest of `{}`", e.size(to), e.name(from))
        .here("{} = {}, but {} = {}", e.name(from), e.size(from), e.name(to), e.size(to));
    return Term::poison();
  }
  if (from != to && contains(e.type(x).dims, to)) {
    e.error("E0312", brackets, "the value would have dim `{}` twice", e.name(to))
        .label(site.spans[0], describe(e, site.arguments[0]));
    return Term::poison();
  }
  const NodeId node = sorted(e, site, x, {from, to, true});
  site.further.push_back(Term::of(e.graph.node(node).results[1]));
  return Term::of(e.graph.node(node).results[0]);
}

}  // namespace elaboration::functions

}  // namespace mesh
