// single_map.h: a nest of one elementwise operation, or of one value that is stored as it is, as lowering makes one of
// each node.
#pragma once
#include <optional>
#include <span>
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

/// sum = sum + term, every element at its own index.
struct AddedTo {
  Access sum, term;
  bool sum_first;
};
std::optional<AddedTo> added_to(const Step&);

/// A number, or a value as it lies in memory, stored over all of `dims`. Both point into the step.
struct SingleStore {
  const Scalar* value;
  std::span<const LocalDim> dims;
  Access to;
  /// The value as it lies in memory; null where it is a number.
  const Access* load() const;
};
/// The step as one; nothing where it is more, or something else.
std::optional<SingleStore> single_store(const Step&);

/// to = from, all of it.
struct Copy {
  Access from, to;
};
/// The step as one; nothing where it does anything else.
std::optional<Copy> copy_of(const Program&, const Step&);

/// Whether equal turns of their loops lead to equal slots.
bool same_slots(const Access&, const Access&);
bool same_dims(const Program&, const Access&, const Access&);

}  // namespace mesh
