// tiles.h: which ranks hold which part of a value.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/placement.h"

namespace mesh {

/// Of the first two dims that are split, the first down and the second across: a row and a column a part. Of many parts
/// the first few and the last; a gap between them says "...".
struct Tiles {
  std::string down, across;                     // the dims; `across` is empty where one alone is split
  std::vector<std::string> rows, columns;       // "0..64"; one column without a name where one dim alone is split
  std::vector<std::vector<std::string>> ranks;  // by row and column: "0, 2"; "0, 4, 8, ... (16 ranks)"
};

/// Nothing of a value that is whole.
std::optional<Tiles> tiles_of(const Graph&, const MeshShape&, const ValueType&, const Placement&);

/// In the fewest lines; "" for what is whole.
std::string picture_of_tiles(const Graph&, const MeshShape&, const ValueType&, const Placement&);

}  // namespace mesh
