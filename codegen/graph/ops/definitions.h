// definitions.h: the definitions of all ops, one file a family in this folder, and what they share.
#pragma once
#include <algorithm>
#include <vector>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"

namespace mesh::ops {

extern const OpDefinition read, literal, position, step, rate, random;  // leaves.cpp
extern const OpDefinition map;                                          // map.cpp
extern const OpDefinition broadcast, reduce, arg_reduce;                // reduce.cpp
extern const OpDefinition dot;                                          // dot.cpp
extern const OpDefinition rename, split, merge;                         // views.cpp
extern const OpDefinition take, take_gradient;                          // take.cpp
extern const OpDefinition slice, pad;                                   // slice.cpp
extern const OpDefinition shift;                                        // shift.cpp
extern const OpDefinition concat;                                       // concat.cpp
extern const OpDefinition cumulative, sort, place;                      // along.cpp
extern const OpDefinition softmax, log_softmax, log_sum_exp;            // softmax.cpp
extern const OpDefinition attention, attention_gradient;                // attention.cpp
extern const OpDefinition update, until, loop, reshard;                 // structure.cpp

using Types = std::vector<ValueType>;

/// The dims of `all` that are not in `without`, in order.
inline std::vector<DimId> without(const std::vector<DimId>& all, const std::vector<DimId>& excluded) {
  std::vector<DimId> rest;
  for (DimId dim : all)
    if (!has(excluded, dim)) rest.push_back(dim);
  return rest;
}

/// What an op needs of its operands, said where its result's type is inferred. A pass that builds something else is
/// wrong: an internal error.
void require(bool holds, const Graph&, const Node&, const char* what);
void require_operands(const Graph&, const Node&, size_t least, size_t most);
/// That operand i has the dims.
void require_dims(const Graph&, const Node&, size_t i, const std::vector<DimId>&);
/// That operand i is of operand 0's element type.
void require_same_element(const Graph&, const Node&, size_t i);

inline const ValueType& operand(const Graph& graph, const Node& node, size_t i) { return graph.type(node.inputs[i]); }
/// The elements of several dims together.
inline int64_t size_of(const Graph& graph, const std::vector<DimId>& dims) { return graph.elements({{}, {}, dims}); }

inline PartialRule completes(const Graph&, const Node&) { return PartialRule::completes; }
inline PartialRule linear_in_first(const Graph&, const Node&) { return PartialRule::first; }
inline PartialRule linear_in_each(const Graph&, const Node&) { return PartialRule::each; }

/// Nothing is computed: a view, or data that is only read.
inline double no_flops(const Graph&, const Node&) { return 0; }
/// `d` summed over the dims that `like` lacks: the gradient of an operand that was broadcast.
inline ValueId sum_to(GraphBuilder& build, ValueId d, ValueId like) {
  const std::vector<DimId> extra = without(build.graph.type(d).dims, build.graph.type(like).dims);
  return build.reduce(Reduce::sum, d, extra);
}

}  // namespace mesh::ops
