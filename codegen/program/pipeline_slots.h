// pipeline_slots.h: the order in which the stages of a pipeline make their actions, and the memory that it needs: while
// a stage has several micro-batches under way, what F leaves to B, and what is sent, has a slot for each of them.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "codegen/program/program.h"
#include "codegen/schedule/in_flight.h"
#include "meshrt/program_info.h"

namespace mesh {

/// As the layout's schedule has it, with room for the messages that wait at a stage; of a loop without B each rank
/// makes its F in the same order. `stage` stands for which of its stages a rank is at; unset where it has one.
PipelineOrder order_of(Program&, const ForStep&, LoopId stage);

/// The stage in whose actions alone the branch is entered, where it lies at one coordinate.
std::optional<int32_t> stage_of(const PipelineOrder&, const BranchStep&);

/// The actions that use a buffer, or a view of it.
std::set<SlotUse> uses_of(const Program&, const ForStep& pipeline, BufferId);

/// The dim of the slots that what a message hands on has.
const LocalDim& slots_of(const Program&, const ForStep& pipeline, const MessageStep&);

/// What stages hand on: the messages that actions send, each value once, in the order of the program.
std::vector<const MessageStep*> handed_on(const ForStep& pipeline);

/// What the training step's pipeline is, for those who run the program.
meshrt::PipelineInfo pipeline_info(const Program&);

/// Gives every buffer that needs it a leading dim of slots, which the turns of the pipeline go round: so many that no
/// two turns that need it at a time meet. Called once, when steps are final and before memory is planned.
void add_pipeline_slots(Program&);

}  // namespace mesh
