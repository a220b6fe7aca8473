#include "codegen/search/rings_for_memory.h"

#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"

namespace mesh {
namespace {

class Rings {
 public:
  Rings(const ShardedGraph& step, const std::string& because) : step_(step), graph_(step.graph), because_(because) {
    for (const Node& node : graph_.nodes)
      if (!node.inputs.empty() && !std::holds_alternative<LoopOp>(node.op))
        for (const Factor& factor : definition(node.op).factors(graph_, node))
          if (factor.circulates) consider(node, factor);
  }
  std::vector<Rule> rules;

 private:
  const DimPlacement& lies(ValueId value, DimId dim) const {
    const std::vector<DimId>& dims = graph_.type(value).dims;
    return step_.placement(value).dims[std::ranges::find(dims, dim) - dims.begin()];
  }

  void consider(const Node& node, const Factor& factor) {
    const DimId own = factor.operands[0];
    const DimPlacement& split = lies(node.inputs[0], own);
    if (split.axes.empty() || factor.size < step_.layout.mesh.size(split.axes)) return;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const DimId met = factor.operands[i];
      if (met == own || !lies(node.inputs[i], met).axes.empty()) continue;
      const auto names = [&](const Rule& rule) { return has(rule.dims, met); };
      if (std::ranges::any_of(step_.layout.rules, names) || std::ranges::any_of(rules, names)) continue;
      Rule rule;
      rule.dims = {met};
      rule.axes = split.axes;
      rule.unless = {own};
      rule.written = axes_text(step_.layout.mesh, split.axes);
      rule.deal = split.deal;
      rule.because = because_;
      rules.push_back(std::move(rule));
    }
  }

  const ShardedGraph& step_;
  const Graph& graph_;
  const std::string& because_;
};

}  // namespace

std::vector<Rule> rings_for_memory(const ShardedGraph& step, const std::string& because) {
  return Rings(step, because).rules;
}

}  // namespace mesh
