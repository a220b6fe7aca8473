// op.h: what every op must say about itself, gathered in one definition per op (graph/ops/*.cpp): the name, result
// types, how dims of operands and results correspond (from which the layout engine derives everything), the gradient,
// and the work. With named dims most ops share the default correspondence: a dim of the same name is the same factor.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/builder.h"
#include "codegen/graph/graph.h"

namespace mesh {

/// One direction of an op's iteration space: the dim that stands for it in each operand and result (unset where it is
/// absent). Splitting a factor over mesh axes splits all of these alike; a factor absent from a result leaves a partial
/// value there.
struct Factor {
  std::vector<DimId> operands, results;
  int64_t size;
  bool splittable = true;       // false: the op needs it whole
  Reduce reduce = Reduce::sum;  // how parts combine in results that lack it
  int64_t granule = 1;          // may be split only where every part is a multiple of it (split and merge of dims)
  bool weigh = false;           // a split that is there already may cost more than none
  Margin margin = {};           // what a part of a result needs of operands beside the same part
};

/// How a pending reduction over ranks (a partial sum) in operands may pass through an op instead of being completed
/// before it.
enum class PartialRule : uint8_t {
  completes,  // never
  first,      // linear in the first operand: that one may be partial
  each,       // linear in each operand alone: one partial operand, the others complete (multiply, dot, ...)
  together    // linear in all operands together: all partial over the same axes (add, subtract), or one operand only
};

struct OpDefinition {
  std::string_view name;
  std::vector<ValueType> (*infer)(const Graph&, const Node&);
  std::vector<Factor> (*factors)(const Graph&, const Node&);
  PartialRule (*partial)(const Graph&, const Node&);
  /// Multiplications and additions of one execution on the whole tensors.
  double (*flops)(const Graph&, const Node&);
  /// Given the results' gradients (unset where nothing flows), returns the operands' (unset where none is needed:
  /// `wanted[i]` false, or not differentiable). Null: no gradient flows.
  std::vector<ValueId> (*gradient)(GraphBuilder&, NodeId, std::span<const ValueId> d_results,
                                   const std::vector<bool>& wanted);
};

const OpDefinition& definition(const Op&);
/// What a nameless value that it makes may be called: "gelu", "product", "sum".
std::string simple_name(const Op&);
/// Same-name factors over all operands and results, in order of first appearance; contracted dims are those no result
/// has.
std::vector<Factor> factors_by_name(const Graph&, const Node&);

}  // namespace mesh
