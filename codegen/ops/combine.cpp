// combine.cpp: sums of weighted rows of a table by index, without a place for the rows between, and their gradients.
// Where the rows are split, a rank sums up those it owns: a partial sum.
#include "codegen/ops/combine.h"

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
#include "meshrt/combine.h"

namespace mesh {
namespace {

extern const OpKind combine_kind, d_table_kind, d_weight_kind;
extern const StepDefinition combine_step, d_table_step, d_weight_step;

/// Of an op of any of the three kinds: the row's dim, the choices; of the table's gradient then the table's dims.
DimId combine_row_of(const auto& op) { return op.dims[0]; }
Dims choices_of(const auto& op) { return {op.dims.begin() + 1, op.dims.begin() + 1 + op.numbers[0]}; }
Dims table_of(const DefinedOp& op) { return {op.dims.begin() + 1 + op.numbers[0], op.dims.end()}; }
const DefinedOp& defined(const Node& node) { return std::get<DefinedOp>(node.op); }

Op with_dims(const OpKind& kind, const DefinedOp& of, const Dims& more = {}) {
  DefinedOp op{&kind, {combine_row_of(of)}, of.numbers};
  for (const Dims& dims : {choices_of(of), more}) op.dims.insert(op.dims.end(), dims.begin(), dims.end());
  return op;
}

// ---- types, layouts, gradient

ops::Types combine_types(const Graph& graph, const Node& node) {
  const DefinedOp& op = defined(node);
  ops::require_operands(graph, node, 3, 3);
  ops::require_dims(graph, node, 0, {combine_row_of(op)});
  const ValueType &table = ops::operand(graph, node, 0), &ids = ops::operand(graph, node, 1);
  ops::require(ids.element == Type::i32 && !has(ids.dims, combine_row_of(op)), graph, node, "these are no indices");
  ops::require_dims(graph, node, 1, choices_of(op));
  ops::require_dims(graph, node, 2, ids.dims);
  ops::require_same_element(graph, node, 2);
  ValueType type = table;
  type.dims = ops::without(ids.dims, choices_of(op));
  for (const DimId dim : ops::without(table.dims, ids.dims))
    if (dim != combine_row_of(op)) type.dims.push_back(dim);
  return {type};
}

/// (ids, weight, d)
ops::Types d_table_types(const Graph& graph, const Node& node) {
  ops::require_operands(graph, node, 3, 3);
  ValueType type = ops::operand(graph, node, 2);
  type.dims = table_of(defined(node));
  return {type};
}

/// (table, ids, d)
ops::Types d_weight_types(const Graph& graph, const Node& node) {
  ops::require_operands(graph, node, 3, 3);
  ValueType type = ops::operand(graph, node, 0);
  type.dims = ops::operand(graph, node, 1).dims;
  return {type};
}

/// Rows are found by their numbers, which of a part are neighbours.
std::vector<Factor> combine_factors(const Graph& graph, const Node& node) {
  std::vector<Factor> factors = factors_by_name(graph, node);
  const DimId row = combine_row_of(defined(node));
  for (Factor& factor : factors) factor.in_order = factor.operands[0] == row || factor.results[0] == row;
  return factors;
}

std::vector<ValueId> combine_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                      const std::vector<bool>& wanted) {
  const Node node = build.graph.node(id);
  const ValueId table = node.inputs[0], ids = node.inputs[1], weight = node.inputs[2];
  std::vector<ValueId> gradients(3);
  if (wanted[0])
    gradients[0] =
        build.value(with_dims(d_table_kind, defined(node), build.graph.type(table).dims), {ids, weight, d[0]});
  if (wanted[2])
    gradients[2] = build.in_order(build.value(with_dims(d_weight_kind, defined(node)), {table, ids, d[0]}),
                                  build.graph.type(weight).dims);
  return gradients;
}

double products(const Graph& graph, const Node& node) {
  const bool gives_table = defined(node).kind == &d_table_kind;
  const Dims& table = gives_table ? graph.type(node.results[0]).dims : ops::operand(graph, node, 0).dims;
  Dims all = ops::operand(graph, node, gives_table ? 0 : 1).dims;
  for (const DimId dim : ops::without(table, all))
    if (dim != combine_row_of(defined(node))) all.push_back(dim);
  return 2.0 * static_cast<double>(ops::size_of(graph, all));
}

ops::Horizons combine_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  Dims dims = choices_of(defined(node));
  dims.push_back(combine_row_of(defined(node)));
  return {along(graph, of, dims, "adds up, at indices that are computed,")};
}

// ---- how everything lies: groups, tokens and choices as the indices do, the rest of a row as the table does

struct Parts {
  Dims groups, tokens, choices, rest;
  DimId row;

  Parts(const Dims& table, const Dims& ids, const auto& op) : row(combine_row_of(op)) {
    const Dims chosen = choices_of(op);
    for (const DimId dim : ids) (has(chosen, dim) ? choices : has(table, dim) ? groups : tokens).push_back(dim);
    for (const DimId dim : table)
      if (dim != row && !has(ids, dim)) rest.push_back(dim);
  }

  static Dims joined(std::initializer_list<Dims> parts) {
    Dims all;
    for (const Dims& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  Dims table() const { return joined({groups, {row}, rest}); }
  Dims ids() const { return joined({groups, tokens, choices}); }
  Dims tokens_order() const { return joined({groups, tokens, rest}); }
};

Dims combine_order(const MemoryOrders& orders, const Node& node, size_t) {
  return Parts(orders.of(node.inputs[0]), orders.of(node.inputs[1]), defined(node)).tokens_order();
}
Dims d_table_order(const MemoryOrders& orders, const Node& node, size_t) {
  return Parts(table_of(defined(node)), orders.of(node.inputs[0]), defined(node)).table();
}
Dims d_weight_order(const MemoryOrders& orders, const Node& node, size_t) {
  return Parts(orders.of(node.inputs[0]), orders.of(node.inputs[1]), defined(node)).ids();
}

std::string text_of(const char* name, const Graph& graph, const auto& op) {
  return fmt::format("{}[{}]", name, graph.dim(combine_row_of(op)).name);
}

// ---- lowering

Dims order_of(const Lowering& to, const Access& access) {
  Dims order;
  for (const LocalDim& local : dims_of(to.program(), access)) order.push_back(local.dim);
  return order;
}

/// A step's operands and result, each in the order that it needs; the result is turned where it lies otherwise.
void emit_step(Lowering& to, const Node& node, const StepDefinition& step, const std::vector<Access>& operands,
               const std::vector<Dims>& orders, const Access& result, const Dims& result_order) {
  DefinedStep made{&step, {}, {}, defined(node).dims, defined(node).numbers};
  made.dims.resize(1 + static_cast<size_t>(made.numbers[0]));
  for (size_t i = 0; i < operands.size(); ++i) made.reads.push_back(to.in_order(operands[i], orders[i]));
  const Access place = to.lies_in(result, result_order) ? result : to.turned(result, result_order);
  made.writes = {place};
  to.emit(made);
  if (place != result) to.emit(CopyStep{place, result});
}

void lower_combine(Lowering& to, const Node& node) {
  const Access table = to.in_memory(node.inputs[0]), ids = to.in_memory(node.inputs[1]),
               weight = to.in_memory(node.inputs[2]);
  const Parts parts(order_of(to, table), order_of(to, ids), defined(node));
  emit_step(to, node, combine_step, {table, ids, weight}, {parts.table(), parts.ids(), parts.ids()},
            to.allocate(node.results[0]), parts.tokens_order());
}

void lower_d_table(Lowering& to, const Node& node) {
  const Access ids = to.in_memory(node.inputs[0]), weight = to.in_memory(node.inputs[1]),
               d = to.in_memory(node.inputs[2]), table = to.allocate(node.results[0]);
  const Parts parts(order_of(to, table), order_of(to, ids), defined(node));
  emit_step(to, node, d_table_step, {ids, weight, d}, {parts.ids(), parts.ids(), parts.tokens_order()}, table,
            parts.table());
}

void lower_d_weight(Lowering& to, const Node& node) {
  const Access table = to.in_memory(node.inputs[0]), ids = to.in_memory(node.inputs[1]),
               d = to.in_memory(node.inputs[2]);
  const Parts parts(order_of(to, table), order_of(to, ids), defined(node));
  emit_step(to, node, d_weight_step, {table, ids, d}, {parts.table(), parts.ids(), parts.tokens_order()},
            to.allocate(node.results[0]), parts.ids());
}

// ---- the steps

/// The accesses of a step by what they are.
struct Places {
  const Access &table, &ids, &tokens;
};
Places places(const DefinedStep& step) {
  if (step.definition == &d_table_step) return {step.writes[0], step.reads[0], step.reads[2]};
  if (step.definition == &d_weight_step) return {step.reads[0], step.reads[1], step.reads[2]};
  return {step.reads[0], step.reads[1], step.writes[0]};
}

/// The local dims of each kind, in order.
struct LocalParts {
  std::vector<LocalDim> groups, tokens, choices, rest;
  LocalDim row;
};
LocalParts local_parts(const Program& program, const DefinedStep& step) {
  const Places at = places(step);
  const auto dims = [&](const Access& access) {
    Dims order;
    for (const LocalDim& local : dims_of(program, access)) order.push_back(local.dim);
    return order;
  };
  const Parts parts(dims(at.table), dims(at.ids), step);
  const auto of = [&](const Access& access, const Dims& wanted) {
    std::vector<LocalDim> found;
    for (const LocalDim& local : dims_of(program, access))
      if (has(wanted, local.dim)) found.push_back(local);
    return found;
  };
  return {of(at.ids, parts.groups), of(at.ids, parts.tokens), of(at.ids, parts.choices), of(at.table, parts.rest),
          of(at.table, {parts.row}).at(0)};
}

std::string combine_step_text(const Program& program, const DefinedStep& step) {
  std::string text = fmt::format("{} {} =", step.definition->name, to_string(program, step.writes[0]));
  for (const Access& read : step.reads) text += " " + to_string(program, read);
  return text;
}

void verify_combine(const Program& program, const DefinedStep& step,
                    const std::function<void(const std::string&)>& say) {
  const Places at = places(step);
  const auto dims = [&](const Access& access) {
    Dims order;
    for (const LocalDim& local : dims_of(program, access)) order.push_back(local.dim);
    return order;
  };
  const Parts parts(dims(at.table), dims(at.ids), step);
  if (dims(at.table) != parts.table() || dims(at.ids) != parts.ids() || dims(at.tokens) != parts.tokens_order())
    say("has a table, indices or tokens that do not lie group by group");
}

std::string combine_shapes(const EmitContext& context, const DefinedStep& step) {
  const Places at = places(step);
  return local_shape(context, at.table) + " at " + local_shape(context, at.ids);
}

std::string combining(EmitContext& context, const DefinedStep& step) {
  const LocalParts parts = local_parts(context.program, step);
  Names& names = context.names;
  const std::string begin = names.begin(parts.row), extent = names.extent(parts.row);
  return fmt::format("{{{}, {}, {}, {}, {}, {}}}", names.product(parts.groups), names.product(parts.tokens),
                     names.product(parts.choices), names.product(parts.rest), begin,
                     begin == "0" ? extent : begin + " + " + extent);
}

void emit_combine(EmitContext& context, CppWriter& out, const DefinedStep& step) {
  std::string text =
      fmt::format("meshrt::{}<{}>({}", step.definition->name,
                  cpp_type(context.program.buffer(step.writes[0].buffer).type), combining(context, step));
  for (const Access& read : step.reads) text += ", " + address(context, read);
  out.line(text + ", " + address(context, step.writes[0]) + ");");
}

meshrt::Combining combine_bound(const Binding& binding, const DefinedStep& step) {
  const LocalParts parts = local_parts(binding.program, step);
  const auto product = [&](const std::vector<LocalDim>& dims) {
    int64_t all = 1;
    for (const LocalDim& local : dims) all *= binding.extent(local);
    return all;
  };
  const Range rows = binding.range(parts.row);
  return {
      product(parts.groups), product(parts.tokens), product(parts.choices), product(parts.rest), rows.begin, rows.end};
}

template <class T>
Task bind_as(Binding& binding, const DefinedStep& step) {
  const auto kernel = step.definition;
  return [&binding, kernel, of = combine_bound(binding, step), a = Pointer(binding, step.reads[0]),
          b = Pointer(binding, step.reads[1]), c = Pointer(binding, step.reads[2]),
          result = Pointer(binding, step.writes[0])] {
    const auto real = [&](const Pointer& pointer) { return reinterpret_cast<T*>(pointer.at(binding)); };
    const auto index = [&](const Pointer& pointer) { return reinterpret_cast<const int32_t*>(pointer.at(binding)); };
    if (kernel == &combine_step) meshrt::combine<T>(of, real(a), index(b), real(c), real(result));
    else if (kernel == &d_table_step) meshrt::combine_d_table<T>(of, index(a), real(b), real(c), real(result));
    else meshrt::combine_d_weight<T>(of, real(a), index(b), real(c), real(result));
  };
}

Task bind_combine(Binding& binding, const DefinedStep& step) {
  switch (const Type type = binding.buffer(step.writes[0]).type) {
    case Type::f32: return bind_as<float>(binding, step);
    case Type::f64: return bind_as<double>(binding, step);
    default: internal_error(std::string("the interpreter does not combine rows of ") + meshrt::name_of(type));
  }
}

// ---- all of it

constexpr StepDefinition step_called(std::string_view name) {
  return {
      .name = name,
      .is_light = false,
      .convolves = false,
      .text = combine_step_text,
      .verify = verify_combine,
      .shapes = combine_shapes,
      .emit = emit_combine,
      .bind = bind_combine,
  };
}

constexpr OpDefinition definition_called(std::string_view name, ops::Types (*infer)(const Graph&, const Node&),
                                         decltype(&combine_gradient) gradient, decltype(&combine_order) order,
                                         bool works_along_dims = true) {
  return {
      .name = name,
      .called = nullptr,
      .infer = infer,
      .factors = combine_factors,
      .partial = ops::linear_in_each,
      .gradient = gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = works_along_dims,
      .causality = combine_horizon,
      .flops = products,
      .effort = ops::costs<Effort::lookup>,
      .narrow = Narrow::widened,
      .reads_elements = ops::in_memory,
      .formula = ops::no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, order, nullptr},
  };
}

constinit const StepDefinition combine_step = step_called("combine"), d_table_step = step_called("combine_d_table"),
                               d_weight_step = step_called("combine_d_weight");

constinit const OpKind combine_kind{
    .definition = definition_called("combine", combine_types, combine_gradient, combine_order),
    .text = [](const Graph& graph, const DefinedOp& op) { return text_of("combine", graph, op); },
    .lower = lower_combine,
    .by_neighbours = nullptr,
};
constinit const OpKind d_table_kind{
    .definition = definition_called("combine_d_table", d_table_types, nullptr, d_table_order, false),
    .text = [](const Graph& graph, const DefinedOp& op) { return text_of("combine_d_table", graph, op); },
    .lower = lower_d_table,
    .by_neighbours = nullptr,
};
constinit const OpKind d_weight_kind{
    .definition = definition_called("combine_d_weight", d_weight_types, nullptr, d_weight_order),
    .text = [](const Graph& graph, const DefinedOp& op) { return text_of("combine_d_weight", graph, op); },
    .lower = lower_d_weight,
    .by_neighbours = nullptr,
};

}  // namespace

Op Combine::op() const {
  DefinedOp op{&combine_kind, {row}, {static_cast<int64_t>(choices.size())}};
  op.dims.insert(op.dims.end(), choices.begin(), choices.end());
  return op;
}

}  // namespace mesh
