// conv_onednn.h: convolutions in f32 by oneDNN, for which bf16 and f16 are widened, on all threads of the rank: cut
// into pieces, which depend on the sizes alone and each of which one thread computes, so that the bits are the same for
// every number of threads.
#pragma once
#include "conv_call.h"
#include "onednn.h"

namespace meshrt {

/// False, and nothing is done, where oneDNN has no kernel of its own for a piece.
template <class In>
bool convolve_onednn(const OneDnn& dnn, const ConvCall<float, In>& call);
extern template bool convolve_onednn(const OneDnn&, const ConvCall<float>&);
extern template bool convolve_onednn(const OneDnn&, const ConvCall<float, Bfloat16>&);
extern template bool convolve_onednn(const OneDnn&, const ConvCall<float, Float16>&);

}  // namespace meshrt
