// rank.h: what one rank of a job is: its number, its memory, its groups. A rank is a thread or a process; emitted
// programs and the interpreter see only this, so everything that changes lies behind it and nothing is global.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "meshrt/rank_memory.h"

namespace meshrt {

/// One mesh axis as ranks see it: `size` coordinates whose ranks lie `stride` apart.
struct Axis {
  int size, stride;
  bool operator==(const Axis&) const = default;
};

/// The ranks that share all coordinates but those of some axes, ordered by these axes, the first slowest; or those of
/// them that a set of coordinates names. A rank's index in the group is the linear index that decides which part of a
/// split dim it owns.
struct Group {
  int id = 0;        ///< indexes this rank's per-group state; other ranks have other numbers for it
  uint64_t key = 0;  ///< the same on all members, and another for every other group
  std::vector<Axis> axes;
  std::vector<int> members;  ///< world rank of each index
  int index = 0;             ///< this rank's place in `members`
  int channel = -1;          ///< number of the channel that it is a slot of; -1: it is none
  int slot = 0;
  int size() const { return static_cast<int>(members.size()); }
};

/// A line from one rank to another, on which values come in the order in which they are sent, whatever the two do in
/// their groups and in other slots meanwhile. As a group it has the two as members.
struct Channel {
  const Group* group = nullptr;
  static constexpr int sender = 0, receiver = 1;  ///< indices in the group
  static constexpr int most_numbers = 1 << 12, most_slots = 1 << 16;
  static constexpr uint64_t key_bit = uint64_t{1} << 29;  ///< set in the keys of channels alone
};

class Transport;  // src/transport/transport.h: threads, processes over the arena, processes over UCX
class Mapping;    // src/transport/memory.h

/// A rank of a running job. Every call on it comes from the one thread that runs the rank.
class Rank {
 public:
  Rank(int rank, int ranks, std::unique_ptr<Transport> transport);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Reserves this rank's memory once, before the first step: `arena` bytes that peers may read and write, `own` bytes
  /// for this rank alone; both zeroed, touched, 2 MiB aligned, huge pages where the system gives them. Collective:
  /// every rank calls it with the same `arena`. Throws Failure (Cause::memory) that names the bytes when there is not
  /// enough.
  void allocate(size_t arena, size_t own);
  /// The same where ranks use unlike parts of it: these alone are touched, and counted.
  void allocate(size_t arena, size_t own, const UsedMemory& used);
  std::byte* arena() const { return arena_; }
  std::byte* own() const { return own_; }
  size_t arena_bytes() const { return arena_bytes_; }
  size_t own_bytes() const { return own_bytes_; }

  /// The group of the given axes (their order matters) that this rank belongs to; of these ranks, where `coordinates`
  /// are given, those whose linear indices over the axes they list, in this order. Made once, then looked up; without
  /// communication, and ranks may ask for their groups in any order. Throws Failure (Cause::usage) when this rank does
  /// not belong to it.
  const Group& group(std::span<const Axis> axes, std::span<const int> coordinates = {});
  /// The same where this rank belongs to it; elsewhere its group of itself alone.
  const Group& group_or_alone(std::span<const Axis> axes, std::span<const int> coordinates);

  /// A slot of the channel from one rank of the job to another, of which this is one; `number` tells apart channels
  /// from the one to the other. Made and looked up as groups are.
  Channel channel(int from, int to, int number = 0, int slot = 0);

  Transport& transport() const { return *transport_; }

 private:
  int rank_, ranks_;
  std::unique_ptr<Transport> transport_;
  std::byte *arena_ = nullptr, *own_ = nullptr;
  size_t arena_bytes_ = 0, own_bytes_ = 0;
  std::unique_ptr<Mapping> own_memory_;
  const Group& add_group(Group group);
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace meshrt
