// conv_own.h: convolutions by our own kernels, on all threads of the rank.
#pragma once
#include "conv_call.h"

namespace meshrt {

template <class T, class In>
void convolve_own(const ConvCall<T, In>& call);
extern template void convolve_own(const ConvCall<float>&);
extern template void convolve_own(const ConvCall<double>&);
extern template void convolve_own(const ConvCall<float, Bfloat16>&);
extern template void convolve_own(const ConvCall<float, Float16>&);

}  // namespace meshrt
