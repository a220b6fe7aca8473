// conv.h: convolution, and what its gradients are: of the three tensors that it relates any one from the two others.
//   x [batch, wide.., groups, in], w [kernel.., groups, in, out], y [batch, narrow.., groups, out], row-major:
//   y = sum over k and in of x * w at the wide element that the window meets (window.h).
// Tensors of another type `In` are bf16 or f16, and the result is f32, in which products of two of them are exact and
// added up. By our own kernels a sum is one chain of fused multiply-adds in order of k, then of channels (of
// `conv_weights` in order of batch, then of the narrow element): its bits do not depend on which parts of the dims a
// rank holds. oneDNN, which runs what it is measured faster at (conv_choice.cpp; MESHRT_CONV=own or onednn overrides),
// gives the same bits for the same extents alone, on any number of threads.
#pragma once
#include <cstdint>
#include <string>

#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"
#include "meshrt/narrow.h"
#include "meshrt/window.h"

namespace meshrt {

/// Products of the extents that a rank holds.
struct ConvExtents {
  int64_t batch, groups, in, out;
};

/// y from x and w. Of x are needed the elements that the windows of y meet.
template <class T, class In>
void conv(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const ConvExtents&, const In* x,
          const In* w, T* y);

/// x from y and w, the transpose of `conv`: each x gets what the y whose windows meet it have of it.
template <class T, class In>
void conv_transpose(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const ConvExtents&,
                    const In* y, const In* w, T* x);

/// w from x and y: summed over batch and the narrow elements.
template <class T, class In>
void conv_weights(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const ConvExtents&,
                  const In* x, const In* y, T* w);

extern template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const float*,
                          const float*, float*);
extern template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const double*,
                          const double*, double*);
extern template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                    const float*, const float*, float*);
extern template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                    const double*, const double*, double*);
extern template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                  const float*, const float*, float*);
extern template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                  const double*, const double*, double*);
extern template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Bfloat16*,
                          const Bfloat16*, float*);
extern template void conv(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&, const Float16*,
                          const Float16*, float*);
extern template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                    const Bfloat16*, const Bfloat16*, float*);
extern template void conv_transpose(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                    const Float16*, const Float16*, float*);
extern template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                  const Bfloat16*, const Bfloat16*, float*);
extern template void conv_weights(const WindowDim&, const WindowDim&, const WindowDim&, const ConvExtents&,
                                  const Float16*, const Float16*, float*);

/// Which implementations run, for messages and for ranks to compare: "own avx2", "oneDNN 2.6.3 avx2" or
/// "own avx2, where it is faster oneDNN 2.6.3 avx2"; of a program that has them of narrow numbers what becomes of these
/// too: ", bf16 own by vdpbf16ps", or ", bf16 widened, f16 widened" to f32.
std::string conv_name(Narrow narrow = {});

/// Why oneDNN is not there; empty where it is, or where MESHRT_CONV asks for our own kernels.
std::string why_no_onednn();

}  // namespace meshrt
