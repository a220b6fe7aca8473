#include "codegen/commands/why_split.h"

#include <fmt/format.h>

#include <set>

#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/rules.h"

namespace mesh {
namespace {

class Way {
 public:
  Way(const ShardedGraph& sharded, ValueId value, DimId dim)
      : sharded_(sharded), graph_(sharded.graph), declared_(graph_, sharded.layout), value_(value), dim_(dim) {}

  std::vector<SplitCause> run() {
    if (axes_of(value_, dim_).empty()) return {};
    while (visited_.insert({value_, dim_}).second && !rule() && step()) {}
    return std::move(causes_);
  }

 private:
  std::vector<AxisId> axes_of(ValueId value, DimId dim) const {
    const std::vector<DimId>& dims = graph_.type(value).dims;
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] == dim) return sharded_.placement(value).dims[i].axes;
    return {};
  }

  std::string called(ValueId value) const {
    const std::string& name = known_as(graph_, value);
    return name.empty() ? fmt::format("`{}`", op_text(graph_, graph_.node(graph_.value(value).producer).op))
                        : fmt::format("`{}`", name);
  }

  /// Whether a rule says so of this value: the end of the way.
  bool rule() {
    const Rule* rule = declared_.rule(value_, dim_);
    if (rule == nullptr || rule->axes != axes_of(value_, dim_)) return false;
    if (!rule->because.empty())
      causes_.push_back(
          {fmt::format("the compiler adds `{}`: {}", rule_text(graph_, sharded_.layout.mesh, *rule), rule->because),
           rule->span});
    else
      causes_.push_back({fmt::format("a rule says so of {}: `{} -> {}`", called(value_),
                                     dims_text(graph_, rule->dims, " * "), rule->written),
                         rule->span});
    return true;
  }

  bool go_on(ValueId value, DimId dim) {
    if (axes_of(value, dim) != axes_of(value_, dim_) || visited_.contains({value, dim})) return false;
    value_ = value;
    dim_ = dim;
    return true;
  }

  bool step() {
    const Node& node = graph_.node(graph_.value(value_).producer);
    if (const auto* loop = std::get_if<LoopOp>(&node.op)) return through_loop(*loop);
    if (const auto* moved = std::get_if<ReshardOp>(&node.op)) {
      if (go_on(node.inputs[0], dim_)) return true;
      const ReshardStep& step = sharded_.steps[moved->step];
      causes_.push_back(
          {fmt::format("{} over {}: {}", name_of(step.kind), axes_text(sharded_.layout.mesh, step.axes), step.reason),
           node.span});
      return false;
    }
    const ValueId made = value_;
    for (const Factor& factor : definition(node.op).factors(graph_, node))
      for (size_t r = 0; r < node.results.size(); ++r) {
        if (node.results[r] != made || factor.results[r] != dim_) continue;
        for (size_t i = 0; i < node.inputs.size(); ++i)
          if (factor.operands[i] && go_on(node.inputs[i], factor.operands[i])) {
            causes_.push_back(
                {fmt::format("`{}` takes it from {}", op_text(graph_, node.op), called(node.inputs[i])), node.span});
            return true;
          }
      }
    causes_.push_back(
        {fmt::format("nothing that `{}` reads lies so: it costs least", op_text(graph_, node.op)), node.span});
    return false;
  }

  /// What a loop hands in and out lies inside as outside.
  bool through_loop(const LoopOp& loop) {
    for (const auto& slice : loop.slices)
      if (slice.turn == value_) return go_on(slice.stacked, dim_);
    for (const auto& collect : loop.collects)
      if (collect.stacked == value_) return go_on(collect.turn, dim_);
    for (const auto& carry : loop.carries) {
      if (carry.entering != value_ && carry.result != value_) continue;
      if (go_on(carry.initial, dim_) || go_on(carry.leaving, dim_)) return true;
      causes_.push_back(
          {fmt::format("each turn of `repeat {}` hands its value on with this split, because that costs least",
                       graph_.dim(loop.dim).name),
           graph_.node(graph_.value(value_).producer).span});
    }
    return false;
  }

  const ShardedGraph& sharded_;
  const Graph& graph_;
  const Declared declared_;
  ValueId value_;
  DimId dim_;
  std::set<std::pair<ValueId, DimId>> visited_;
  std::vector<SplitCause> causes_;
};

}  // namespace

std::vector<SplitCause> why_split(const ShardedGraph& sharded, ValueId value, DimId dim) {
  return Way(sharded, value, dim).run();
}

std::vector<WhySo> why_it_lies_so(const ShardedGraph& sharded, ValueId value) {
  const MeshShape& mesh = sharded.layout.mesh;
  const std::vector<DimId>& dims = sharded.graph.type(value).dims;
  const Placement& lies = sharded.placement(value);
  std::vector<WhySo> all;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!lies.dims[i].axes.empty())
      all.push_back({fmt::format("`{}` over `{}`", sharded.graph.dim(dims[i]).name, axes_text(mesh, lies.dims[i].axes)),
                     why_split(sharded, value, dims[i])});
  for (const Partial& partial : lies.partial)
    all.push_back(
        {fmt::format("a partial sum over `{}`, completed by who needs it whole", mesh.axes[partial.axis].name), {}});
  return all;
}

}  // namespace mesh
