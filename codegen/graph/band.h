// band.h: the pairs of elements of two dims that a mask leaves where it is one of positions: those that lie neither too
// far before each other nor too far behind, a band beside the diagonal.
#pragma once
#include <optional>
#include <string>

#include "codegen/graph/graph.h"
#include "meshrt/deal.h"

namespace mesh {

/// The index along `first` less that along `second` is at least `least` and at most `most`; unset: whatever it is.
struct Band {
  DimId first, second;
  std::optional<int64_t> least = {}, most = {};

  /// How many pairs of these elements are in it, as the area that they cover: of a triangle half the square.
  double pairs(meshrt::IndexRange along_first, meshrt::IndexRange along_second) const;
  /// Whether any is.
  bool meets(meshrt::IndexRange along_first, meshrt::IndexRange along_second) const;
};

/// As it stands behind the names of the dims: "", ", causal", ", window 64", ", causal, window 64",
/// ", seq - key from 1 to 64".
std::string band_text(const std::string& first, const std::string& second, std::optional<int64_t> least,
                      std::optional<int64_t> most);

/// What `keep`, true or false for each pair of positions, leaves of `second`; nothing where it is no band.
std::optional<Band> band_of(const Graph&, ValueId keep, DimId second);

}  // namespace mesh
