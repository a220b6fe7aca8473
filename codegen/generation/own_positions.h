// own_positions.h: sequences side by side of which each stands at a position of its own, as prompts of several lengths
// do.
#pragma once
#include "codegen/graph/builder.h"

namespace mesh {

/// The dim that counts sequences, where nothing that is made of one of them goes into another; else unset.
DimId separate_sequences(const Graph&);

/// The input that says where sequences stand: a number, or one for each of them.
ValueType position_type(DimId sequences);

/// The table's element at the index along the dim, where `index` is a number or has the dims of sequences that the
/// table has, too: of each sequence its own.
ValueId element_at(GraphBuilder&, ValueId table, DimId, ValueId index);

}  // namespace mesh
