// tensor_part.h: what a rank writes of its part of a tensor.
#pragma once
#include <span>

#include "files/tensor_runs.h"
#include "meshrt/program_info.h"
#include "meshrt/tensor.h"

namespace meshrt {

/// The elements of its part that a rank writes and vouches for: ranks that hold copies of one part share it out.
struct Share {
  int64_t first = 0, last = 0;  ///< of the part's elements
  int64_t count() const { return last - first; }
};
Share share_of(const Tensor& tensor, std::span<const MeshAxis> mesh, int rank);

}  // namespace meshrt
