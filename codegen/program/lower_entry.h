// lower_entry.h: one entry on its way into a program: its routines, and what it gives to those who call it.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "codegen/program/entry.h"
#include "codegen/program/evaluation_cut.h"
#include "codegen/program/lowering.h"

namespace mesh {

/// A value of an entry, and one of another entry that is always equal to it.
struct EqualValues {
  ValueId own, other;
};

class EntryLowering {
 public:
  /// `stored[id]` is the buffer of each of the entry's stored tensors; `first_step` is where its reshard steps begin in
  /// program.sharded.steps. The entry outlives this.
  EntryLowering(Program&, const Entry&, std::vector<BufferId> stored, uint32_t first_step);

  /// What each batch gives to this entry, as `other` computes it; nothing unless that computes all of it, complete and
  /// lying alike.
  std::vector<EqualValues> found_in(const EntryLowering& other) const;
  /// Says that another entry reads the value too.
  void keep(ValueId value) { call_.keep(value); }
  /// The buffer that holds the value, if one does as a whole.
  std::optional<BufferId> buffer_of(ValueId) const;

  /// Appends the entry and its routines to the program.
  void lower();
  /// The same, where each call begins with the forward steps of `routine`: they leave equal[i].own in held[i].
  void lower_after(uint32_t routine, std::span<const EqualValues> equal, std::span<const BufferId> held);

 private:
  EntryPoint begin() const;
  void lower_call(EntryPoint&);
  void lower_batches(EntryPoint&, Routine step, const std::vector<bool>& nodes);
  void add_outputs(EntryPoint&);
  BufferId carry(EntryPoint&, ValueId, Reduce);

  Program& program_;
  const Entry& entry_;
  const Graph& graph_;
  const std::vector<BufferId> stored_;
  Lowering call_;
  std::optional<Lowering> finish_;    // over batches: what is computed once, at the end
  std::optional<EvaluationCut> cut_;  // over batches
};

}  // namespace mesh
