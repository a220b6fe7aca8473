// kept_for_readers.h: where a product's result is kept for later steps, and all of them begin with the same operation
// on it, what that gives is kept in its place.
#pragma once
#include <optional>

#include "codegen/program/buffer_names.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/single_map.h"

namespace mesh {

/// Every reader computes again what the nest `at` computes of `result` (a stash before the bias was added): `at` and
/// all of them become copies of `result`, which is to hold it. Whether that is so.
bool keep_repeated(Program&, MemoryUses&, const Access& result, Step& at);

/// All readers but `at`, which applies the activation, want no more of its argument than the derivative there: they
/// become copies of what is kept.
struct KeptSlope {
  std::optional<Access> slope;  // to hold the derivative: the argument's memory. Relu's is read off its result
};
std::optional<KeptSlope> keep_slope(Program&, MemoryUses&, BufferNames&, const Access& argument,
                                    const SingleMap& activation, Step& at);

bool is_activation(MapFunction);  // of those that products apply

}  // namespace mesh
