// pool.cpp: max_pool and avg_pool: types, layouts, gradients, lowering, and how the language writes them. Of a window
// that reaches beyond a dim's ends only what is there counts. All dims may be split; along those of windows each rank
// reads a few rows of its neighbours.
#include "codegen/ops/pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/terms.h"
#include "codegen/graph/ops/definitions.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"

namespace mesh {
namespace {

extern const OpKind pool_kind;

// ---- types, layouts, gradient

ops::Types infer_pool(const Graph& graph, const Node& node) {
  const Pool pool = Pool::of(node);
  const size_t operands = pool.kind == PoolKind::max_gradient ? 2 : 1;
  ops::require_operands(graph, node, operands, operands);
  for (size_t i = 0; i < operands; ++i)
    ops::require_dims(graph, node, i, pool.makes_wide() ? narrow_dims(pool.windows) : wide_dims(pool.windows));
  ValueType type = ops::operand(graph, node, operands - 1);
  type.dims = pool.changed(type.dims);
  if (pool.kind == PoolKind::max) return {type, {Type::i32, {}, type.dims}};
  return {type};
}

std::vector<Factor> pool_factors(const Graph& graph, const Node& node) {
  const Pool pool = Pool::of(node);
  const WindowSide from = pool.makes_wide() ? WindowSide::narrow : WindowSide::wide,
                   to = pool.makes_wide() ? WindowSide::wide : WindowSide::narrow;
  std::vector<size_t> beside;
  for (size_t i = 0; i < node.inputs.size(); ++i) beside.push_back(i);
  return window_factors(graph, node, pool.windows, std::vector(node.inputs.size(), from),
                        std::vector(node.results.size(), to), beside);
}

PartialRule pool_partial(const Graph&, const Node& node) {
  switch (Pool::of(node).kind) {
    case PoolKind::max: return PartialRule::completes;
    case PoolKind::max_gradient: return PartialRule::each;
    case PoolKind::avg:
    case PoolKind::avg_gradient: break;
  }
  return PartialRule::first;
}

std::vector<ValueId> pool_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                   const std::vector<bool>&) {
  const Node node = build.graph.node(id);
  const Pool pool = Pool::of(node);
  if (pool.kind == PoolKind::max)
    return {build.value(Pool{PoolKind::max_gradient, pool.windows}.op(), {node.results[1], d[0]})};
  if (pool.kind == PoolKind::avg) return {build.value(Pool{PoolKind::avg_gradient, pool.windows}.op(), {d[0]})};
  return std::vector<ValueId>(node.inputs.size());
}

std::string pool_called(const Op& op, size_t result) {
  const bool index = Pool::of(std::get<DefinedOp>(op)).kind == PoolKind::max && result == 1;
  return index ? "chosen" : "pooled";
}

/// A comparison or addition for each element of each window.
double pool_flops(const Graph& graph, const Node& node) {
  const Pool pool = Pool::of(node);
  const ValueId narrow = pool.makes_wide() ? node.inputs[0] : node.results[0];
  auto n = static_cast<double>(graph.elements(graph.type(narrow)));
  for (const WindowedDim& window : pool.windows) n *= static_cast<double>(window.size);
  return n;
}

ops::Horizons pool_causality(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const Pool pool = Pool::of(node);
  const Dims moving = pool.makes_wide() ? narrow_dims(pool.windows) : wide_dims(pool.windows);
  return {node.results.size(), along(graph, of, moving, "moves windows along")};
}

Dims pool_order(const MemoryOrders& orders, const Node& node, size_t) {
  const Pool pool = Pool::of(node);
  return pool.changed(pool.order(orders.of(node.inputs[0])));
}

std::string pool_text(const Graph& graph, const DefinedOp& op) {
  const Pool pool = Pool::of(op);
  return fmt::format("{}[{}]", pool.name(), windows_text(graph, pool.windows, pool.makes_wide()));
}

// ---- lowering

void lower_pool(Lowering& to, const Node& node) {
  const Pool pool = Pool::of(node);
  const Dims moving = pool.makes_wide() ? narrow_dims(pool.windows) : wide_dims(pool.windows);
  std::vector<Access> reads;
  Dims order;
  for (const ValueId input : node.inputs) {
    const Access from = to.in_memory(input);
    if (reads.empty()) {
      for (const LocalDim& local : dims_of(to.program(), from)) order.push_back(local.dim);
      order = pool.order(order);
    }
    reads.push_back(to.in_order(from, order, moving));
  }
  const Dims wanted = pool.changed(order);
  std::vector<Access> results, made;
  for (const ValueId result : node.results) {
    results.push_back(to.allocate(result));
    made.push_back(to.lies_in(results.back(), wanted) ? results.back() : to.turned(results.back(), wanted));
  }
  const DefinedOp op = std::get<DefinedOp>(pool.op());
  to.emit(DefinedStep{&pool_step, reads, made, op.dims, op.numbers});
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i] != results[i]) to.emit(CopyStep{made[i], results[i]});
}

constinit const OpKind pool_kind{
    .definition =
        {
            .name = "pool",
            .called = pool_called,
            .infer = infer_pool,
            .factors = pool_factors,
            .partial = pool_partial,
            .gradient = pool_gradient,
            .expand = nullptr,
            .reduction = nullptr,
            .number = nullptr,
            .names_dims_alike = false,
            .works_along_dims = true,
            .causality = pool_causality,
            .flops = pool_flops,
            .effort = ops::costs<Effort::dear>,
            .narrow = Narrow::widened,
            .reads_elements = ops::in_memory,
            .formula = ops::no_formula,
            .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, pool_order, nullptr},
        },
    .text = pool_text,
    .lower = lower_pool,
    .by_neighbours = nullptr,
};

}  // namespace

Op Pool::op() const {
  DefinedOp op{&pool_kind, {}, {static_cast<int64_t>(kind)}};
  add_windows(op.dims, op.numbers, windows);
  return op;
}

Pool Pool::of(const DefinedOp& op) {
  return {static_cast<PoolKind>(op.numbers[0]), windows_of(op.dims, op.numbers, 1)};
}

const char* Pool::name() const {
  constexpr std::array names{"max_pool", "max_pool_gradient", "avg_pool", "avg_pool_gradient"};
  return names[static_cast<size_t>(kind)];
}

Dims Pool::order(const Dims& operand) const {
  const Dims moving = makes_wide() ? narrow_dims(windows) : wide_dims(windows);
  const auto first = std::ranges::find_if(operand, [&](DimId dim) { return has(moving, dim); });
  Dims all(operand.begin(), first);
  all.insert(all.end(), moving.begin(), moving.end());
  for (const DimId dim : operand)
    if (!has(all, dim)) all.push_back(dim);
  return all;
}

// ---- in the language

namespace elaboration::functions {
namespace {

/// E0311 where a window would lie beyond an end of the dim as a whole: nothing would be in it.
bool windows_hold_something(Elaboration& e, const WindowBrackets& brackets) {
  for (size_t i = 0; i < brackets.windows.size(); ++i) {
    const WindowedDim& window = brackets.windows[i];
    for (int64_t n = 0; n < e.size(window.narrow); ++n) {
      const int64_t first = window.stride * n - window.before;
      bool some = false;
      for (int64_t k = 0; k < window.size && !some; ++k)
        some = first + window.dilation * k >= 0 && first + window.dilation * k < e.size(window.wide);
      if (some) continue;
      e.error("E0311", brackets.spans[i], "window {} of `{}` holds nothing: all of it is padding", n,
              e.name(window.narrow))
          .help("less padding than a window is long, as in `pad: 1` of windows of 3");
      return false;
    }
  }
  return true;
}

std::optional<ValueId> pooled_operand(Elaboration& e, const CallSite& site, const WindowBrackets& brackets) {
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (!x || !is_numeric(e, x, site.spans[0], site.name)) return {};
  if (!is_float(e.type(x).element)) {
    e.error("E0309", site.spans[0], "{} takes floats", site.name)
        .here(describe(e, site.arguments[0]))
        .help(fmt::format("write the cast that is meant: `real({})`", e.sources.text(site.spans[0])));
    return {};
  }
  CallSite one = site;
  one.dims = wide_dims(brackets.windows);
  one.dim_spans = brackets.spans;
  if (!has_dims(e, one, site.arguments[0], site.spans[0])) return {};
  const Dims result = narrowed(e.type(x).dims, brackets.windows);
  for (size_t i = 0; i < brackets.windows.size(); ++i)
    if (const DimId to = brackets.windows[i].narrow; std::ranges::count(result, to) > 1) {
      e.error("E0312", brackets.spans[i], "the value would have dim `{}` twice", e.name(to))
          .label(site.spans[0], describe(e, site.arguments[0]));
      return {};
    }
  return x;
}

Term pooled(Elaboration& e, CallSite& site, PoolKind kind) {
  const auto brackets = window_brackets(e, site, WindowSizes::numbers, false);
  if (!brackets) return Term::poison();
  if (!brackets->others.empty()) {
    e.error("E0310", brackets->other_spans[0], "{} moves windows along each dim in its brackets", site.name)
        .here("this has none")
        .help(fmt::format("`{0}: 2 stride 2`; a dim that is to stay is left out", e.name(brackets->others[0])));
    return Term::poison();
  }
  const auto x = pooled_operand(e, site, *brackets);
  if (!x || !windows_hold_something(e, *brackets)) return Term::poison();
  e.build.span = site.span;
  const NodeId node = e.build.append(Pool{kind, brackets->windows}.op(), {*x});
  return Term::of(e.graph.node(node).results[0]);
}

}  // namespace

Term max_pool(Elaboration& e, CallSite& site) { return pooled(e, site, PoolKind::max); }
Term avg_pool(Elaboration& e, CallSite& site) { return pooled(e, site, PoolKind::avg); }

}  // namespace elaboration::functions

}  // namespace mesh
