// placement.h: how one value lies on the mesh, and the one function that everybody asks which part a rank owns.
#pragma once
#include <compare>
#include <string>
#include <vector>

#include "codegen/layout/mesh.h"

namespace mesh {

/// How the parts of a dim are dealt to coordinates. `block`: part k of p of N begins at floor(N k / p).
enum class Ownership : uint8_t { block };

struct DimPlacement {
  std::vector<AxisId> axes;  // major first; empty: whole
  Ownership ownership = Ownership::block;
  Margin margin = {};  // held beside the own part, which stays what is owned
  auto operator<=>(const DimPlacement&) const = default;
};

/// A pending reduction over the ranks of an axis.
struct Partial {
  AxisId axis;
  Reduce reduce;
  auto operator<=>(const Partial&) const = default;
};

/// The sub-mesh that holds a value at all: for an axis, the coordinates that do (absent axes: all of them).
struct Where {
  AxisId axis;
  std::vector<int64_t> coordinates;
  auto operator<=>(const Where&) const = default;
};

/// Axes that appear nowhere hold equal copies.
struct Placement {
  std::vector<DimPlacement> dims;  // one for each dim of the value's type, in its order
  std::vector<Partial> partial;    // sorted by axis
  std::vector<Where> at;           // sorted by axis; empty: everywhere
  auto operator<=>(const Placement&) const = default;

  static Placement whole(size_t dims) { return {std::vector<DimPlacement>(dims), {}, {}}; }
  bool uses(AxisId axis) const;  // by a dim or a partial
  bool is_partial() const { return !partial.empty(); }
  bool has_margins() const;
  Placement without_margins() const;
};

/// A stretch of global indices.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The index of a rank over axes, the first slowest.
int64_t index_over(const MeshShape&, const std::vector<AxisId>& axes, int64_t rank);
/// What the rank with these mesh coordinates (of `rank`) owns of a dim of `size`, as global indices in order.
std::vector<Range> owned(const MeshShape&, int64_t size, const DimPlacement&, int64_t rank);
/// For block ownership, which is one range: the same.
Range owned_block(const MeshShape&, int64_t size, const DimPlacement&, int64_t rank);
/// The largest number of elements any rank holds of a dim, margins included.
int64_t largest_extent(const MeshShape&, int64_t size, const DimPlacement&);
/// Whether all ranks own equally many.
bool is_even(const MeshShape&, int64_t size, const DimPlacement&);
/// Elements of the largest local part of a value.
int64_t local_elements(const Graph&, const MeshShape&, const ValueType&, const Placement&);

/// "data * model"
std::string axes_text(const MeshShape&, const std::vector<AxisId>&, const char* between = " * ");
/// "[batch/data, seq, heads/model] partial sum over model"
std::string to_string(const Graph&, const MeshShape&, const ValueType&, const Placement&);

}  // namespace mesh
