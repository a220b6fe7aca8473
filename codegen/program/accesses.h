// accesses.h: what every step reads and writes, in one place, for fusion, the memory plan and the verifier.
#pragma once
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

enum class Use : uint8_t {
  read,   // of what an earlier step wrote
  write,  // every element (of this turn's slot), without reading
  update  // reads and writes
};

/// Visits the accesses of one step, reads before writes; of one that has bodies, those of their
/// steps, step by step.
void for_each_access(Step&, const std::function<void(Access&, Use)>&);
void for_each_access(const Step&, const std::function<void(const Access&, Use)>&);
/// How many steps this thread has visited so: what passes over a program take grows with it.
uint64_t steps_asked();
/// The same for one pass of a nest.
void for_each_access(Pass&, const std::function<void(Access&, Use)>&);

/// Whether each of the turns has a slot of its own, in one of these loops: within their bodies the slots are one value,
/// as what a replica has of its own is.
bool are_slots_of(std::span<const LoopId> loops, std::span<const TurnIndex> turns);

/// What a step uses, for who asks of many others whether they may change places with it.
class UsedMemory {
 public:
  UsedMemory(const Program&, const Step&);
  /// Memory that one of the two steps writes and the other, whose name for it this is, uses as well; unset: they may
  /// change places. Other slots of a stacked buffer are other memory.
  BufferId in_common(const Step& other) const;

 private:
  struct Used {
    Access access;
    Use use;
  };
  const Program& program_;
  std::unordered_map<uint32_t, std::vector<Used>> uses_;  // by memory
};
/// The same of two steps, as the second one names it.
BufferId common_memory(const Program&, const Step&, const Step&);

/// How many steps of a routine, from its first on, belong to the forward part.
size_t forward_steps(std::span<const Step>);
/// Whether one of them changes a stored tensor: no other entry may execute them then.
bool forward_part_updates(const Program&, const Routine&);

/// What callers of the program's entries read: results, outputs, wanted values, and what is carried from call to call.
void for_each_handed_out(Program&, const std::function<void(BufferId&)>&);

/// Buffers that live beyond their routine or are read when it has ended: stored tensors, and what is handed out. By
/// buffer.
std::vector<bool> outlive_routine(const Program&);

}  // namespace mesh
