// pipeline_slots.h: the order in which the stages of a pipeline make their actions, and the memory that it needs: while
// a stage has several micro-batches under way, what F leaves to B, and what is sent, has a slot for each of them.
#pragma once
#include <vector>

#include "codegen/program/program.h"
#include "meshrt/program_info.h"

namespace mesh {

/// As the layout's schedule has it; of a loop without B each stage makes F after F.
PipelineOrder order_of(const Program&, const ForStep&);

/// The most micro-batches that a stage has under way between their F and the end of their B; without B two, one of
/// which is computed while the other is sent.
int64_t slots_of(const PipelineOrder&);

/// What stages hand on: the messages that actions send, each value once, in the order of the program.
std::vector<const MessageStep*> handed_on(const ForStep& pipeline);

/// What the training step's pipeline is, for those who run the program.
meshrt::PipelineInfo pipeline_info(const Program&);

/// Gives every buffer that needs it a leading dim of slots, which the turns of the pipeline go round. Called once, when
/// steps are final and before memory is planned.
void add_pipeline_slots(Program&);

}  // namespace mesh
