// bound.h: how far a step goes along a dim, on one rank, at the moment.
#pragma once
#include <algorithm>

#include "codegen/interpret/binding.h"

namespace mesh {

class BoundExtent {
 public:
  BoundExtent(const Binding& binding, const LoopBound& bound)
      : range_(binding.range(bound.along)), last_(binding, bound.last) {}
  int64_t now(const Binding& binding) const {
    const int64_t last = *reinterpret_cast<const int32_t*>(last_.at(binding));
    return std::clamp<int64_t>(last + 1 - range_.begin, 0, range_.size());
  }
  /// Without a bound.
  int64_t all() const { return range_.size(); }

 private:
  Range range_;
  Pointer last_;
};

}  // namespace mesh
