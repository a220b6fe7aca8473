#include "codegen/layout/balance.h"

#include <algorithm>

namespace mesh {

double largest_share(const Graph& graph, const MeshShape& mesh, const Node& node, const std::vector<Factor>& factors,
                     const Placement& first) {
  const auto banded = std::ranges::find_if(factors, [](const Factor& factor) { return factor.band.has_value(); });
  if (banded == factors.end() || (!banded->band->least && !banded->band->most)) return 1;
  const Band& band = *banded->band;
  const std::vector<DimId>& dims = graph.type(node.inputs[0]).dims;
  const DimPlacement& split = first.dims[std::ranges::find(dims, band.first) - dims.begin()];
  const int64_t size = graph.dim(band.first).size, others = graph.dim(band.second).size, parts = mesh.size(split.axes);
  double most = 0;
  for (int64_t part = 0; part < parts; ++part) {
    double here = 0;
    for (const Range& range : elements_of_part(mesh, size, split, part)) here += band.pairs(range, {0, others});
    most = std::max(most, here);
  }
  const double all = band.pairs({0, size}, {0, others});
  return all > 0 ? most * static_cast<double>(parts) / all : 1;
}

}  // namespace mesh
