// placement.h: how one value lies on the mesh, and the one function that everybody asks which part a rank owns.
#pragma once
#include <compare>
#include <string>
#include <vector>

#include "codegen/layout/mesh.h"
#include "codegen/layout/shared_list.h"
#include "meshrt/deal.h"

namespace mesh {

using meshrt::Deal;

struct DimPlacement {
  std::vector<AxisId> axes;  // major first; empty: whole
  /// How the elements are dealt to as many parts as the axes make, or to a multiple: then each holds several of these.
  /// On the way from one placement to another a whole dim may lie in the order in which it was dealt.
  Deal deal = {};
  Margin margin = {};  // held beside the own part, which stays what is owned; of blocks
  /// The parts go round the ranks of the axes while an op works on them, one after the other: beside its own each rank
  /// meets those of the ranks so many before it, ascending. Of what the op reads it sees these parts, of what it gives
  /// each part collects what the ranks add that meet it. Empty: they stay where they are.
  std::vector<int64_t> meets = {};
  bool circulates() const { return !meets.empty(); }
  auto operator<=>(const DimPlacement&) const = default;
};

/// A pending reduction over the ranks of an axis.
struct Partial {
  AxisId axis;
  Reduce reduce;
  auto operator<=>(const Partial&) const = default;
};

/// The ranks that have what a loop over `dim` stacks: with every turn it is another one's slot.
struct TurnOwner {
  DimId dim;  // unset: nothing of the kind
  std::vector<AxisId> axes;
  Deal deal;
  explicit operator bool() const { return bool(dim); }
  auto operator<=>(const TurnOwner&) const = default;
};

/// The sub-mesh that holds a value at all: for an axis, the coordinates that do (absent axes: all of them). Within a
/// loop it may be the one that owns the turn. Where each rank makes its own turns alone (layout/divided.h) the value
/// varies: at any time each coordinate holds that of another turn, which is neither a copy nor a term of a sum.
struct Where {
  AxisId axis;
  std::vector<int64_t> coordinates = {};  // in order; none where the turn says which
  TurnOwner owner = {};
  bool varying = false;
  auto operator<=>(const Where&) const = default;
};

/// Axes that appear nowhere hold equal copies.
struct Placement {
  SharedList<DimPlacement> dims;  // one for each dim of the value's type, in its order
  std::vector<Partial> partial;   // sorted by axis
  std::vector<Where> at;          // sorted by axis; empty: everywhere
  auto operator<=>(const Placement&) const = default;

  static Placement whole(size_t dims) { return {SharedList<DimPlacement>(dims), {}, {}}; }
  bool uses(AxisId axis) const;      // by a dim or a partial, or only some of its coordinates
  const Where* where(AxisId) const;  // null: all coordinates
  bool is_partial() const { return !partial.empty(); }
  bool has_margins() const;
  Placement without_margins() const;
  bool circulates() const;
  Placement without_circulation() const;
};

/// For tables.
size_t hash_of(const Placement&);

/// A stretch of global indices, or of positions (meshrt/deal.h).
using Range = meshrt::IndexRange;

/// Where the slot of a turn lies, if a loop over `dim` stacks its turns as `split` says: for each axis the owner's
/// coordinate, sorted by axis.
std::vector<Where> owners_of_turn(DimId dim, const DimPlacement& split);
/// The same of a loop whose turns ranks make each for itself.
std::vector<Where> varying_turns(DimId dim, const DimPlacement& split);
/// Whether no other coordinate of the axis ever has a turn.
bool has_all_turns(const Graph&, const MeshShape&, const Where& some, const TurnOwner&);
/// The coordinate that such a place means in a turn of the loop, which has `turns`; of a single one without a loop
/// that.
int64_t coordinate_at(const MeshShape&, const Where&, int64_t turns, int64_t turn);

/// The deal that gives each part these elements of so many; by a name where there is one for that.
Deal deal_by_table(int64_t size, std::vector<std::vector<meshrt::IndexRange>> table);

/// Of the indices of ranks over axes, the first slowest, those at the coordinates of one of them.
std::vector<int> indices_at(const MeshShape&, const std::vector<AxisId>& axes, const Where&);

/// All ranks hold it, of turns that ranks make each for itself their own.
void hold_everywhere(Placement&);

/// Splits the dim no longer over these axes; a whole dim lies in its own order.
void remove_axes(DimPlacement&, const std::vector<AxisId>&);
/// The value is complete, and the same, along these axes: each of its dims is split only by what precedes them.
Placement without_axes(Placement, const std::vector<AxisId>&);
/// The placement of a value with dims `to` that lies as one says of dims `from`: the same set in another order.
Placement reordered(const Placement&, const std::vector<DimId>& from, const std::vector<DimId>& to);

/// The index of a rank over axes, the first slowest.
int64_t index_over(const MeshShape&, const std::vector<AxisId>& axes, int64_t rank);
/// The positions of a dim of `size` that part `index` of as many as its axes make has: of blocks, the global indices.
Range positions_of_part(const MeshShape&, int64_t size, const DimPlacement&, int64_t index);
/// The same of the part that `rank` owns.
Range owned_positions(const MeshShape&, int64_t size, const DimPlacement&, int64_t rank);
/// The elements there, as global indices in the order in which the rank holds them.
std::vector<Range> owned(const MeshShape&, int64_t size, const DimPlacement&, int64_t rank);
/// The same of a part.
std::vector<Range> elements_of_part(const MeshShape&, int64_t size, const DimPlacement&, int64_t index);
/// How many elements two lists of ranges share.
int64_t shared_elements(const std::vector<Range>&, const std::vector<Range>&);
/// The largest number of elements any rank holds of a dim, margins included.
int64_t largest_extent(const MeshShape&, int64_t size, const DimPlacement&);
/// Whether all ranks own equally many.
bool is_even(const MeshShape&, int64_t size, const DimPlacement&);
/// Elements of the largest local part of a value.
int64_t local_elements(const Graph&, const MeshShape&, const ValueType&, const Placement&);
/// Bytes of it.
int64_t local_bytes(const Graph&, const MeshShape&, const ValueType&, const Placement&);

/// " zigzag", " rounds(2)", "" for blocks.
std::string deal_text(const Deal&);
/// As the attribute of a rule says it: ` { owns: "rounds", rounds: 2 }`, "" for blocks.
std::string owns_text(const Deal&);
/// "data * model"
std::string axes_text(const MeshShape&, const std::vector<AxisId>&, const char* between = " * ");
/// "pipe 0 or 3", "data of its turn of layer", "data, by turns of layer"
std::string to_string(const Graph&, const MeshShape&, const Where&);
/// "[batch/data, seq/ctx zigzag, heads/model] partial sum over model at pipe 0", "[batch] varying over data, by turns
/// of layer"
std::string to_string(const Graph&, const MeshShape&, const ValueType&, const Placement&);

}  // namespace mesh
