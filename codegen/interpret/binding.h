// binding.h: what the steps of an interpreted program are bound to: the program, the rank that runs it, the
// turns of its loops, this step's input; and addresses of accesses in that rank's memory.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/program/extent.h"
#include "codegen/program/program.h"
#include "meshrt/collectives.h"
#include "meshrt/rank.h"
#include "meshrt/step_input.h"
#include "meshrt/types.h"

namespace mesh {

struct Binding {
  const Program& program;
  meshrt::Rank& rank;
  std::vector<int64_t> turns;        // by LoopId: the turn under way
  std::vector<int64_t> loop_extent;  // by LoopId: how many turns it has
  std::map<DimId, LoopId> loops;     // around the steps that are being bound
  meshrt::StepInput input;           // of the step under way
  /// By CollectiveStep::step and what it moves: its start and its wait may stand in either order, in several lists.
  std::map<std::tuple<uint32_t, BufferId, BufferId>, std::shared_ptr<class PlannedCall>> calls;

  Binding(const Program&, meshrt::Rank&);
  /// Where the buffer's memory begins.
  std::byte* memory(BufferId) const;
  const Buffer& buffer(const Access& access) const { return program.buffer(access.buffer); }
  const MeshShape& mesh() const { return program.sharded.layout.mesh; }
  int64_t extent(const LocalDim& dim) const { return local_extent(program, dim, rank.rank()); }
  Range range(const LocalDim& dim) const { return local_range(program, dim, rank.rank()); }
  std::string name(DimId dim) const { return program.sharded.graph.dim(dim).name; }
};

/// The element of an access at index 0 of all its dims, given the turns of the loops around it.
class Pointer {
 public:
  Pointer() = default;
  Pointer(const Binding&, const Access&);
  std::byte* at(const Binding& binding) const {
    std::byte* place = start_;
    for (const auto& [turn, bytes] : turns_) place += turn.slot(binding.turns[turn.loop.index]) * bytes;
    for (const auto& [loop, offsets] : owned_) place += (*offsets)[static_cast<size_t>(binding.turns[loop.index])];
    return place;
  }
  void move(int64_t bytes) { start_ += bytes; }
  explicit operator bool() const { return start_ != nullptr; }

 private:
  std::byte* start_ = nullptr;
  std::vector<std::pair<TurnIndex, int64_t>> turns_;                                   // with the bytes of a slot
  std::vector<std::pair<LoopId, std::shared_ptr<const std::vector<int64_t>>>> owned_;  // of split dims: bytes by turn
};

/// An access as a step that iterates over `nest` reads or writes it: the element at index 0 of every nest dim, and the
/// bytes from one index of a nest dim to the next.
struct Window {
  /// A dim of the buffer of which elements may be missing: the pointer and strides leave it at its first element.
  struct Guard {
    int dim;  // of the nest; -1: none
    Reach reach;
    int64_t stride;  // bytes
    double outside;  // what stands for a missing element
  };
  Access access;
  Pointer pointer;
  std::vector<int64_t> strides;  // by nest dim, bytes; 0 where the buffer lacks it
  std::vector<Guard> guards;
  Type type = Type::f32;
};
/// An internal error if the nest leaves the part of the buffer that this rank holds.
Window window(const Binding&, const Access&, std::span<const LocalDim> nest);

/// Position of a dim in the dims of an access (after its turns), or an internal error.
size_t position_of(const Binding&, const Access&, DimId);
/// The ranks that differ only along these axes, in this order.
std::vector<meshrt::Axis> axes_of(const Binding&, const std::vector<AxisId>& axes);
/// `some`: of these ranks those at its coordinates alone; elsewhere a group that has nothing to do.
const meshrt::Group& group_of(Binding&, const std::vector<AxisId>& axes, const Where* some = nullptr);
/// The coordinate that a place means in the turn that is under way then.
std::function<int64_t()> coordinate_of(const Binding&, const Where&);

}  // namespace mesh
