// conv_call.h: a call of conv.h, as its implementations take it.
#pragma once
#include "meshrt/conv.h"

namespace meshrt {

enum class ConvResult : uint8_t { y, x, w };

/// The result from the two other tensors, in the order x, w; y, w; or x, y.
template <class T, class In = T>
struct ConvCall {
  ConvResult makes;
  WindowDims windows;
  ConvExtents extents;
  const In *first, *second;
  T* result;
};

/// How many multiplications, those with what lies beyond a dim among them.
inline int64_t multiplications(const WindowDims& windows, const ConvExtents& extents) {
  int64_t n = extents.batch * extents.groups * extents.in * extents.out;
  for (const WindowDim& window : windows) n *= window.narrow.count * window.kernel;
  return n;
}

}  // namespace meshrt
