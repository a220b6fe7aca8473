#include "checkpoint/tensor_part.h"

#include <algorithm>

#include "meshrt/collectives.h"

namespace meshrt {

Share share_of(const Tensor& tensor, std::span<const MeshAxis> mesh, int rank) {
  std::vector<bool> splits(mesh.size(), false);
  for (const LocalDim& dim : tensor.dims)
    for (const int axis : dim.axes) splits[static_cast<size_t>(axis)] = true;
  int64_t copy = 0, copies = 1;
  for (size_t a = 0; a < mesh.size(); ++a) {
    if (splits[a]) continue;
    const auto place = std::ranges::find(tensor.places, static_cast<int>(a), &Tensor::Place::axis);
    const int coordinate = rank / mesh[a].stride % mesh[a].size;
    const bool all = place == tensor.places.end();
    copy = copy * (all ? mesh[a].size : std::ssize(place->coordinates)) +
           (all ? coordinate : std::ranges::find(place->coordinates, coordinate) - place->coordinates.begin());
    copies *= all ? mesh[a].size : std::ssize(place->coordinates);
  }
  const int64_t elements = tensor.local_elements();
  return {part_begin(elements, copy, copies), part_begin(elements, copy + 1, copies)};
}

}  // namespace meshrt
