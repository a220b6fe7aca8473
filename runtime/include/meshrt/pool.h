// pool.h: the largest element, or the mean, of the windows that move along dims, and what their gradients are. Of a
// window that reaches beyond a dim's ends only what is there counts.
//   x [outer, wide.., inner], y [outer, narrow.., inner], row-major; see window.h.
#pragma once
#include <cstdint>

#include "meshrt/window.h"

namespace meshrt {

struct PoolExtents {
  int64_t outer, inner;
};

/// y = the largest of each window, NaN if one is; where = which of the window's elements, counted with the last dim
/// fastest: the first of equal ones.
template <class T>
void max_pool(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const PoolExtents&, const T* x,
              T* y, int32_t* where);

/// d_x = to each element what the windows give back of which it is the largest.
template <class T>
void max_pool_gradient(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const PoolExtents&,
                       const int32_t* where, const T* d_y, T* d_x);

/// y = the mean of each window.
template <class T>
void avg_pool(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const PoolExtents&, const T* x,
              T* y);

/// d_x = to each element its share of what the windows give back that it is in.
template <class T>
void avg_pool_gradient(const WindowDim& slow, const WindowDim& middle, const WindowDim& fast, const PoolExtents&,
                       const T* d_y, T* d_x);

}  // namespace meshrt
