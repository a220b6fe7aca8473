// lower_cumulative.cpp: a running sum is a nest that reads what it has just stored.
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"

namespace mesh {

/// to[i] = x[i] + to[i - 1], in order of i; in reverse i counts from the last.
void Lowering::lower_cumulative(const Node& node) {
  const CumulativeOp& op = std::get<CumulativeOp>(node.op);
  const ValueId x = node.inputs[0];
  const Type type = graph_.type(x).element;
  const int64_t last = graph_.dim(op.dim).size - 1;
  Pass pass;
  int what = -1;
  if (op.reverse) {
    const Access from = in_memory(x);
    what = load(pass, mapped(from, {position_of(from, op.dim), op.dim, last, -1, 1, {}}), {});
  } else {
    what = scalar(pass, x, {});
  }
  const Access to = allocate(node.results[0]);
  const size_t position = position_of(to, op.dim);
  const auto dims = dims_of(program_, to);
  pass.inner.assign(dims.begin(), dims.end());
  const IndexMap before{position, op.dim, op.reverse ? last + 1 : -1, op.reverse ? -1 : 1, 1, 0.0};
  const int sum = apply(pass, MapFunction::add, {load(pass, mapped(to, before), {}), what}, type);
  pass.stores.push_back({sum, op.reverse ? mapped(to, {position, op.dim, last, -1, 1, {}}) : to});
  emit(Nest{{}, {std::move(pass)}, {}});
}

}  // namespace mesh
