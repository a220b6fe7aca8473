// beams.h: the entry `generate.beams`: sequences that go on from what another one has left.
#pragma once
#include <optional>

#include "codegen/generation/one_position.h"

namespace mesh {

/// `batch` counts the sequences, `beam` is as large. What other inputs give is left as it is: a sequence goes on from
/// one of the same. Nothing where no cache has the dim.
std::optional<Graph> choosing_sequences(const OnePosition&, DimId batch, DimId beam);

}  // namespace mesh
