// conv.cpp: convolution: its types, layouts, gradients and lowering. Split over batch, groups or channels out nothing
// is sent; over channels in, its result is a partial sum; along a dim of windows each rank reads a few rows of its
// neighbours, and the weights' gradient is a partial sum. A layout splits all other dims than the kernel's.
#include "codegen/ops/conv.h"

#include <fmt/format.h>

#include "codegen/graph/ops/definitions.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"

namespace mesh {
namespace {

extern const OpKind conv_kind;

constexpr std::array tensors{ConvTensor::y, ConvTensor::x, ConvTensor::w};

// ---- dims

Dims in_both(const Dims& a, const Dims& b, const Dims& but) {
  return filtered(a, [&](DimId dim) { return has(b, dim) && !has(but, dim); });
}

Dims chained(std::initializer_list<Dims> parts) {
  Dims all;
  for (const Dims& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Without the dims of windows, on which side they are.
ConvDims without_windows(const ConvDims& dims, const std::vector<WindowedDim>& windows) {
  return {dims.made, other_dims(dims.x, wide_dims(windows)), other_dims(dims.w, kernel_dims(windows)),
          other_dims(dims.y, narrow_dims(windows))};
}

/// The made tensor as the op says it, the others by their types.
ConvDims dims_of(const Graph& graph, const Node& node, const std::function<Dims(ValueId)>& dims) {
  const Conv conv = Conv::of(node);
  const auto of = [&](ConvTensor tensor) {
    return tensor == conv.makes ? conv.result : dims(node.inputs[operand_of(conv.makes, tensor)]);
  };
  ops::require_operands(graph, node, 2, 2);
  return {conv.makes, of(ConvTensor::x), of(ConvTensor::w), of(ConvTensor::y)};
}

ConvDims logical_dims(const Graph& graph, const Node& node) {
  return dims_of(graph, node, [&](ValueId value) { return graph.type(value).dims; });
}

// ---- types, layouts, gradient

ops::Types infer_conv(const Graph& graph, const Node& node) {
  const Conv conv = Conv::of(node);
  const ConvDims dims = logical_dims(graph, node), rest = without_windows(dims, conv.windows);
  for (const WindowedDim& window : conv.windows)
    ops::require(has(dims.x, window.wide) && has(dims.w, window.kernel) && has(dims.y, window.narrow), graph, node,
                 "a tensor lacks a dim of its windows");
  for (const Dims* all : {&rest.x, &rest.w, &rest.y})
    for (const DimId dim : *all)
      ops::require(has(rest.x, dim) + has(rest.w, dim) + has(rest.y, dim) >= 2, graph, node,
                   "a dim stands in one tensor alone");
  ops::require_same_element(graph, node, 1);
  return {{computed_in(ops::operand(graph, node, 0).element), {}, conv.result}};
}

WindowSide side_of(ConvTensor tensor) {
  return tensor == ConvTensor::x ? WindowSide::wide : tensor == ConvTensor::y ? WindowSide::narrow : WindowSide::none;
}

/// The weights' gradient reads x beside the part of y: what the convolution read.
std::vector<Factor> conv_factors(const Graph& graph, const Node& node) {
  const Conv conv = Conv::of(node);
  std::vector<WindowSide> operands(2);
  for (const ConvTensor tensor : tensors)
    if (tensor != conv.makes) operands[operand_of(conv.makes, tensor)] = side_of(tensor);
  return window_factors(graph, node, conv.windows, operands, {side_of(conv.makes)}, {0});
}

/// Where the operands are bf16 or f16, d becomes that too.
std::vector<ValueId> conv_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                   const std::vector<bool>& wanted) {
  const Node node = build.graph.node(id);
  const Conv conv = Conv::of(node);
  const ValueId made_d = build.narrow(d[0], build.graph.type(node.inputs[0]).element);
  const auto value_of = [&](ConvTensor tensor) {
    return tensor == conv.makes ? made_d : node.inputs[operand_of(conv.makes, tensor)];
  };
  std::vector<ValueId> result(2);
  for (const ConvTensor made : tensors) {
    if (made == conv.makes || !wanted[operand_of(conv.makes, made)]) continue;
    const ValueId of = node.inputs[operand_of(conv.makes, made)];
    std::vector<ValueId> inputs(2);
    for (const ConvTensor tensor : tensors)
      if (tensor != made) inputs[operand_of(made, tensor)] = value_of(tensor);
    result[operand_of(conv.makes, made)] =
        build.value(Conv{made, conv.windows, build.graph.type(of).dims}.op(), std::move(inputs));
  }
  return result;
}

std::string conv_called(const Op& op, size_t) {
  return Conv::of(std::get<DefinedOp>(op)).makes == ConvTensor::w ? "weights" : "convolved";
}

/// A multiplication and an addition for each element of the kernel and each of the channels that it joins.
double conv_flops(const Graph& graph, const Node& node) {
  const Conv conv = Conv::of(node);
  const ConvDims dims = logical_dims(graph, node);
  return 2 * static_cast<double>(ops::size_of(graph, dims.y)) *
         static_cast<double>(ops::size_of(graph, chained({kernel_dims(conv.windows), dims.in(conv.windows)})));
}

ops::Horizons conv_causality(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const Conv conv = Conv::of(node);
  const ConvDims dims = logical_dims(graph, node);
  const Dims moving = chained({wide_dims(conv.windows), narrow_dims(conv.windows)});
  Horizon all = along(graph, of, moving, "moves windows along");
  for (const DimId dim : chained({dims.x, dims.w, dims.y}))
    if (!has(conv.result, dim)) all = without_dim(all, dim, ops::adds_up(graph, dim));
  return {all};
}

/// y[t] = sum over k of x[t + k * dilation - before] * w[k]
std::vector<ValueId> conv_by_neighbours(GraphBuilder& build, const Node& node,
                                        const std::function<bool(DimId)>& is_sequence) {
  constexpr int64_t most = 64;  // neighbours, each a value of its own
  const Conv conv = Conv::of(node);
  const WindowedDim& window = conv.windows.front();
  const auto size = [&](DimId dim) { return build.graph.dim(dim).size; };
  if (conv.makes != ConvTensor::y || conv.windows.size() > 1 || !is_sequence(window.wide)) return {};
  if (window.stride != 1 || size(window.wide) != size(window.narrow) || window.size > most) return {};
  const ConvDims dims = logical_dims(build.graph, node);
  const ValueId x = build.computed(node.inputs[0]), w = build.computed(node.inputs[1]);
  std::vector<ValueId> neighbours;
  for (int64_t k = 0; k < window.size; ++k)
    neighbours.push_back(build.neighbour(x, window.wide, k * window.dilation - window.before, Edge{}));
  const ValueId all = build.value(ConcatOp{std::vector<DimId>(neighbours.size()), window.kernel}, neighbours);
  const ValueId y = build.dot(all, w, chained({kernel_dims(conv.windows), dims.in(conv.windows)}));
  return {build.in_order(build.rename(y, window.wide, window.narrow), conv.result)};
}

/// Channels last, as the kernel works.
Dims conv_order(const MemoryOrders& orders, const Node& node, size_t) {
  const Conv conv = Conv::of(node);
  const ConvDims dims = dims_of(orders.graph, node, [&](ValueId value) { return orders.of(value); });
  return dims.order_of(conv.makes, conv.windows);
}

void conv_wish(const Graph& graph, const Node& node, const std::function<void(ValueId, Dims)>& wish_for) {
  const Conv conv = Conv::of(node);
  const ConvDims dims = logical_dims(graph, node);
  for (const ConvTensor tensor : tensors)
    if (tensor != conv.makes)
      wish_for(node.inputs[operand_of(conv.makes, tensor)], dims.order_of(tensor, conv.windows));
}

std::string conv_text(const Graph& graph, const DefinedOp& op) {
  const Conv conv = Conv::of(op);
  constexpr std::array names{"conv", "conv_transpose", "conv_weights"};
  return fmt::format("{}[{}]", names[static_cast<size_t>(conv.makes)],
                     windows_text(graph, conv.windows, conv.makes == ConvTensor::x));
}

// ---- lowering

Dims names_of(std::span<const LocalDim> dims) {
  Dims names;
  for (const LocalDim& local : dims) names.push_back(local.dim);
  return names;
}

void lower_conv(Lowering& to, const Node& node) {
  const Conv conv = Conv::of(node);
  const Access result = to.allocate(node.results[0]);
  const std::array from{to.in_memory(node.inputs[0]), to.in_memory(node.inputs[1])};
  const auto names = [&](ConvTensor tensor) {
    return names_of(dims_of(to.program(), tensor == conv.makes ? result : from[operand_of(conv.makes, tensor)]));
  };
  const ConvDims dims{conv.makes, names(ConvTensor::x), names(ConvTensor::w), names(ConvTensor::y)};
  std::vector<Access> reads(2);
  for (const ConvTensor tensor : tensors)
    if (const size_t i = operand_of(conv.makes, tensor); tensor != conv.makes)
      reads[i] = to.in_order(from[i], dims.order_of(tensor, conv.windows),
                             conv.makes == ConvTensor::x ? narrow_dims(conv.windows) : wide_dims(conv.windows));
  const Dims wanted = dims.order_of(conv.makes, conv.windows);
  const Access made = to.lies_in(result, wanted) ? result : to.turned(result, wanted);
  const DefinedOp op = std::get<DefinedOp>(conv.op());
  to.emit(DefinedStep{&conv_step, reads, {made}, op.dims, op.numbers});
  if (made != result) to.emit(CopyStep{made, result});
}

constinit const OpKind conv_kind{
    .definition =
        {
            .name = "conv",
            .called = conv_called,
            .infer = infer_conv,
            .factors = conv_factors,
            .partial = ops::linear_in_each,
            .gradient = conv_gradient,
            .expand = nullptr,
            .reduction = nullptr,
            .number = nullptr,
            .names_dims_alike = false,
            .works_along_dims = false,
            .causality = conv_causality,
            .flops = conv_flops,
            .effort = ops::costs<Effort::product>,
            .narrow = Narrow::multiplied,
            .reads_elements = ops::in_memory,
            .formula = ops::no_formula,
            .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, conv_order, conv_wish},
        },
    .text = conv_text,
    .lower = lower_conv,
    .by_neighbours = conv_by_neighbours,
};

}  // namespace

Op Conv::op() const {
  DefinedOp op{&conv_kind, {}, {static_cast<int64_t>(makes)}};
  add_windows(op.dims, op.numbers, windows);
  op.dims.insert(op.dims.end(), result.begin(), result.end());
  return op;
}

Conv Conv::of(const DefinedOp& op) {
  Conv conv{static_cast<ConvTensor>(op.numbers[0]), windows_of(op.dims, op.numbers, 1), {}};
  conv.result.assign(op.dims.begin() + static_cast<std::ptrdiff_t>(dims_of_window * conv.windows.size()),
                     op.dims.end());
  return conv;
}

// The dims of a class in the order of an operand, so that the other operand is turned where it has another.
Dims ConvDims::batch(const std::vector<WindowedDim>& windows) const {
  const ConvDims rest = without_windows(*this, windows);
  return made == ConvTensor::x ? in_both(rest.y, rest.x, rest.w) : in_both(rest.x, rest.y, rest.w);
}
Dims ConvDims::groups(const std::vector<WindowedDim>& windows) const {
  const ConvDims rest = without_windows(*this, windows);
  return filtered(made == ConvTensor::w ? rest.x : rest.w,
                  [&](DimId dim) { return has(rest.x, dim) && has(rest.w, dim) && has(rest.y, dim); });
}
Dims ConvDims::in(const std::vector<WindowedDim>& windows) const {
  const ConvDims rest = without_windows(*this, windows);
  return made == ConvTensor::w ? in_both(rest.x, rest.w, rest.y) : in_both(rest.w, rest.x, rest.y);
}
Dims ConvDims::out(const std::vector<WindowedDim>& windows) const {
  const ConvDims rest = without_windows(*this, windows);
  return made == ConvTensor::w ? in_both(rest.y, rest.w, rest.x) : in_both(rest.w, rest.y, rest.x);
}
Dims ConvDims::x_order(const std::vector<WindowedDim>& windows) const {
  return chained({batch(windows), wide_dims(windows), groups(windows), in(windows)});
}
Dims ConvDims::w_order(const std::vector<WindowedDim>& windows) const {
  return chained({kernel_dims(windows), groups(windows), in(windows), out(windows)});
}
Dims ConvDims::y_order(const std::vector<WindowedDim>& windows) const {
  return chained({batch(windows), narrow_dims(windows), groups(windows), out(windows)});
}

}  // namespace mesh
