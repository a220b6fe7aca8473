// single_map.h: a nest of one elementwise operation, as lowering makes one of each node.
#pragma once
#include <optional>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// One operation with one result, every element at its own index.
struct SingleMap {
  MapFunction function;
  std::vector<const Scalar*> operands;
  Access to;
  /// The operand as it lies in memory; nothing where it is a number.
  const Access* load(size_t operand) const;
};

/// The step as one; nothing where it is more, or something else. Operands point into the step.
std::optional<SingleMap> single_map(const Step&);

/// Whether equal turns of their loops lead to equal slots.
bool same_slots(const Access&, const Access&);
bool same_dims(const Program&, const Access&, const Access&);

}  // namespace mesh
