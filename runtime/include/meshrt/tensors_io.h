// tensors_io.h: whole tensors out of the parts of all ranks, and back: what `fetch`, `verify` and checkpoints of one
// file need. Collective: every rank of the job calls with its part of the same tensor. Made for exactness, not speed.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "meshrt/rank.h"
#include "meshrt/tensor.h"

namespace meshrt {

/// On rank 0 the elements of the whole tensor, row-major in logical order, from the parts of the ranks whose copy is
/// primary; elsewhere nothing. Throws Failure (Cause::mismatch) when these parts do not make up the whole.
std::vector<std::byte> gather_tensor(Rank& rank, const Tensor& tensor);

/// Every rank's part of `whole`, which rank 0 gives, row-major in logical order; elsewhere it is not read.
void scatter_tensor(Rank& rank, std::span<const std::byte> whole, const Tensor& tensor);

}  // namespace meshrt
