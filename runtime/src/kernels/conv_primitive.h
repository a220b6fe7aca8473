// conv_primitive.h: a convolution as oneDNN has compiled it for its sizes. Made once a process.
#pragma once
#include <array>
#include <compare>

#include "conv_call.h"
#include "onednn.h"

namespace meshrt {

/// A convolution of whole dims.
struct ConvShape {
  struct Dim {
    int64_t wide, narrow, kernel, stride, dilation, before, after;
    auto operator<=>(const Dim&) const = default;
  };
  ConvResult makes;
  ConvExtents extents;
  std::array<Dim, 3> dims;

  bool operator<(const ConvShape&) const;
};

class ConvPrimitive {
 public:
  /// Null where oneDNN has no kernel of its own for the shape, but a generic one.
  static const ConvPrimitive* of(const OneDnn&, const ConvShape&);

  /// Weights lie as this primitive wants them; `scratch` has scratch_bytes(). On the calling thread.
  void run(const float* first, const float* second, float* result, void* scratch) const;
  /// From [kernel.., groups, in, out] to how this primitive reads weights, or back from how it makes them.
  void reorder(const float* from, float* to) const;

  size_t weights_bytes() const { return weights_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  bool has_weights_of(const ConvPrimitive& other) const {
    return dnn_.memory_desc_equal(weights_, other.weights_) != 0;
  }

 private:
  ConvPrimitive(const OneDnn& dnn, const ConvShape& shape) : dnn_(dnn), makes_(shape.makes) {}
  bool make(const ConvShape& shape);
  dnnl::PrimitiveDesc describe(const ConvShape& shape, ConvResult makes, dnnl::PrimitiveDesc forward) const;

  const OneDnn& dnn_;
  ConvResult makes_;
  dnnl::MemoryDesc x_, y_, plain_weights_;
  dnnl::PrimitiveDesc description_ = nullptr;  // what the two after it point into
  const dnnl::MemoryDesc *weights_ = nullptr, *scratchpad_ = nullptr;
  size_t weights_bytes_ = 0, scratch_bytes_ = 0;
  dnnl::Primitive convolution_ = nullptr, reorder_ = nullptr;
};

}  // namespace meshrt
