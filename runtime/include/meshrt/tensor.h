// tensor.h: a named tensor of a program, as one rank holds it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/deal.h"
#include "meshrt/initial.h"
#include "meshrt/types.h"

namespace meshrt {

/// A dim of a tensor as one rank holds it: positions [begin, end) of `size`. Local memory is row-major over end -
/// begin.
struct LocalDim {
  std::string name;
  int64_t size, begin, end;
  std::vector<int> axes;  ///< mesh axes that split it, major first, as indices into ProgramInfo::mesh
  Deal deal = {};         ///< what stands at a position: of blocks the element of that index
  std::vector<IndexRange> ranges() const { return ranges_at(size, deal, begin, end); }
};

/// A cache is what an entry leaves for later calls and no checkpoint holds.
enum class Role { input, parameter, optimizer, state, cache, metric, output };

struct Tensor {
  std::string name;  ///< path: "token", "layer.attn.wq", "layer.attn.wq.moment1"
  Role role;
  Type type;
  int64_t index_bound = -1;    ///< of index(vocab): values lie in [0, bound)
  std::vector<LocalDim> dims;  ///< logical order
  void* data = nullptr;        ///< local elements, row-major in logical order; set by bind
  bool primary = true;         ///< of the copies that replication makes, this rank's counts (is written, is fetched)
  Initial initial;
  int line = 0;  ///< in the spec
  /// The coordinates of a mesh axis that alone hold it, in order; at others its dims are empty.
  struct Place {
    int axis;
    std::vector<int> coordinates;
  };
  std::vector<Place> places = {};
  int64_t local_elements() const {
    int64_t n = 1;
    for (const LocalDim& d : dims) n *= d.end - d.begin;
    return n;
  }
};

/// Fills every parameter and state of `tensors` with its initial values for `seed`.
void initialise(std::span<Tensor> tensors, uint64_t seed);

}  // namespace meshrt
