// extent.h: where things lie in a rank's memory. The interpreter and the emitter ask here, so that both compute the
// same extents, strides and addresses; the numbers are of one rank, and the structure (which dims a stride multiplies,
// which loops index what) is the same for all ranks, for the emitter to write down by name.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// Positions of a dim that `rank` holds (meshrt/deal.h): of blocks, global indices; margins may lie beyond its ends.
Range local_range(const Program&, const LocalDim&, int64_t rank);
/// The global indices there, in the order in which the rank holds them; of a dim without margins.
std::vector<int64_t> global_indices(const Program&, const LocalDim&, int64_t rank);
/// The part that the rank owns of what it holds.
LocalDim without_margin(const LocalDim&);
/// Their number.
int64_t local_extent(const Program&, const LocalDim&, int64_t rank);
/// The number that the rank with most of them holds.
int64_t largest_extent(const Program&, const LocalDim&);
/// The same among the ranks that lie where `rank` does along these axes.
int64_t largest_extent(const Program&, const LocalDim&, const std::vector<AxisId>& axes, int64_t rank);
/// Whether all ranks hold equally many: then the extent is a compile-time constant.
bool is_even(const Program&, const LocalDim&);

/// The buffer whose memory this one lies in: itself, or what it is a view of.
BufferId storage(const Program&, BufferId);
/// Elements from one index of dims[position] to the next: the product of the local extents of the dims after it.
int64_t stride(const Program&, const Buffer&, size_t position, int64_t rank);
/// Elements that `rank` holds.
int64_t local_elements(const Program&, const Buffer&, int64_t rank);
/// Elements that the largest rank holds.
int64_t largest_elements(const Program&, const Buffer&);
/// The same among the ranks that lie where `rank` does along these axes: slots of the first dim, each as large as the
/// largest rank's.
int64_t largest_elements(const Program&, const Buffer&, const std::vector<AxisId>& axes, int64_t rank);
/// A dim of a buffer of which loops around a step fix the slot: a leading one, or one that a map fixes.
struct FixedDim {
  size_t position;  // of the buffer's dims
  TurnIndex turn;
};
std::vector<FixedDim> fixed_dims(const Access&);
/// The slot of such a dim in a turn: among those that the rank has, 0 for what another one has.
int64_t slot(const Program&, const Buffer&, const FixedDim&, int64_t turn, int64_t rank);
/// The dims that remain after the turns of an access.
std::span<const LocalDim> dims_of(const Program&, const Access&);

/// Of the dims that stand in front of the queries in an attention's log-sums, those that are one dim of heads to its
/// kernel: all that keys lack, whose queries share them and lie side by side in memory; else the last one.
std::span<const LocalDim> head_dims(const Program&, const AttentionStep&);

/// The map of an access at a position of its buffer's dims, null where there is none.
const IndexMap* map_at(const Access&, size_t position);
/// The access with one more map.
Access mapped(Access, const IndexMap&);

/// The address of an access as a step with dims `nest` (outermost first) sees it, in elements of the buffer:
///   sum over `fixed` of their slot * stride(position)
/// + sum over nest dims i with positions[i] >= 0 of (index i + shift i) * stride(positions[i])
/// + sum over `mapped` of their element * stride(position)
/// where index i counts from 0 and stride(position) is the buffer's stride there.
struct Address {
  BufferId buffer;
  std::vector<FixedDim> fixed;
  std::vector<int> positions;  // for each nest dim: its position in the buffer's dims, -1 where the buffer lacks it
  /// Where a step iterates over a smaller part of a dim than the buffer holds: shift = begin of the iterated part -
  /// begin of the held one, a constant of the rank. Absent nest dims have shift 0.
  struct Shift {
    int nest_dim;
    LocalDim iterated, held;
  };
  std::vector<Shift> shifts;
  /// A dim of the buffer along which an IndexMap leads. `nest_dim` is -1 and `iterated` nothing for a fixed element.
  struct Mapped {
    IndexMap map;
    int nest_dim;
    LocalDim iterated, held;
  };
  std::vector<Mapped> mapped;
};
Address address_of(const Program&, const Access&, std::span<const LocalDim> nest);

/// Elements to add to the buffer's beginning at index 0 of every nest dim: what loops fix, shifts, and maps whose
/// elements are always there. `turns[loop]` is the turn of each loop under way.
int64_t base(const Program&, const Address&, std::span<const int64_t> turns, int64_t rank);
/// Elements from one index of nest dim i to the next; 0 where the buffer lacks it, or where elements may be missing.
int64_t stride(const Program&, const Address&, size_t nest_dim, int64_t rank);

/// Where a map leads on one rank: at index i (from 0) of the nest's dim to element (first + step * i) / every of the
/// `extent` that the buffer holds.
struct Reach {
  int64_t first, step, every, extent;
  /// The element, or nothing where the buffer does not hold one.
  std::optional<int64_t> element(int64_t index) const;
};
Reach reach_of(const Program&, const Address::Mapped&, int64_t rank);
/// Whether the buffer holds every element that the nest asks for, on every rank.
bool always_inside(const Program&, const Address::Mapped&);

}  // namespace mesh
