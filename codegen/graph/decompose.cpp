#include "codegen/graph/decompose.h"

#include <cmath>

#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

using F = MapFunction;

/// The numbers of one row: its maximum (0 where nothing counts), exp(x - maximum) where it counts, and their sum.
struct Row {
  ValueId top, exponential, total;
};

Row row_of(GraphBuilder& build, const Node& node, const std::vector<DimId>& dims) {
  const ValueId x = node.inputs[0];
  const Type element = build.graph.type(x).element;
  const bool masked = node.inputs.size() > 1;
  const auto number = [&](double value) { return build.literal(value, element); };
  const auto keep = [&](ValueId value, double other) {
    return masked ? build.map(F::where, {node.inputs[1], value, number(other)}) : value;
  };
  Row row;
  row.top = build.reduce(Reduce::max, keep(x, -INFINITY), dims);
  if (masked) row.top = build.map(F::where, {build.map(F::equal, {row.top, number(-INFINITY)}), number(0), row.top});
  row.exponential = keep(build.map(F::exp, {build.subtract(x, row.top)}), 0);
  row.total = build.reduce(Reduce::sum, row.exponential, dims);
  return row;
}

std::vector<ValueId> softmax(GraphBuilder& build, const Node& node, DimId dim) {
  const Row row = row_of(build, node, {dim});
  ValueId total = row.total;
  if (node.inputs.size() > 1) {  // a row with nothing kept gives 0
    const Type element = build.graph.type(total).element;
    total = build.map(F::where,
                      {build.map(F::equal, {total, build.literal(0, element)}), build.literal(1, element), total});
  }
  return {build.multiply(row.exponential, build.map(F::reciprocal, {total}))};
}

std::vector<ValueId> log_sum_exp(GraphBuilder& build, const Node& node, const std::vector<DimId>& dims) {
  const Row row = row_of(build, node, dims);
  return {build.add(build.map(F::log, {row.total}), row.top)};
}

std::vector<ValueId> log_softmax(GraphBuilder& build, const Node& node, DimId dim) {
  const Row row = row_of(build, node, {dim});
  const ValueId y = build.subtract(node.inputs[0], build.add(build.map(F::log, {row.total}), row.top));
  if (node.inputs.size() < 2) return {y};
  return {build.map(F::where, {node.inputs[1], y, build.literal(-INFINITY, build.graph.type(y).element)})};
}

/// The smallest position whose entry equals the row's extreme; the dim's last where none does (NaN).
std::vector<ValueId> arg_reduce(GraphBuilder& build, const Node& node, const ArgReduceOp& op) {
  const DimId dim[] = {op.dim};
  const ValueId x = node.inputs[0], best = build.reduce(op.largest ? Reduce::max : Reduce::min, x, dim);
  const double last = static_cast<double>(build.graph.dim(op.dim).size - 1);
  const ValueId where =
      build.map(F::where, {build.map(F::equal, {x, best}), build.position(op.dim), build.literal(last, Type::i32)});
  const ValueId found = build.reduce(Reduce::min, where, dim);
  build.graph.value(found).type.index_of = op.dim;
  return {found};
}

}  // namespace

void decompose(Graph& graph) {
  expand_nodes(graph, [](GraphBuilder& build, NodeId id) -> std::vector<ValueId> {
    const Node node = build.graph.node(id);
    if (const SoftmaxOp* op = std::get_if<SoftmaxOp>(&node.op)) return softmax(build, node, op->dim);
    if (const LogSoftmaxOp* op = std::get_if<LogSoftmaxOp>(&node.op)) return log_softmax(build, node, op->dim);
    if (const LogSumExpOp* op = std::get_if<LogSumExpOp>(&node.op)) return log_sum_exp(build, node, op->dims);
    if (const ArgReduceOp* op = std::get_if<ArgReduceOp>(&node.op)) return arg_reduce(build, node, *op);
    return {};
  });
  verify_graph(graph, "decompose");
}

}  // namespace mesh
