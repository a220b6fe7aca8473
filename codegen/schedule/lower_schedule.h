// lower_schedule.h: what is added to lists of computations before they are run: recomputation, messages, parameters
// that are gathered, gradients that are summed.
#pragma once
#include "codegen/schedule/schedule.h"

namespace mesh {

/// R before each B or I, which so begins before the gradient has come where there is time; except_last leaves out the
/// last micro-batch, whose activations are still there.
PipelineSchedule with_recompute(PipelineSchedule, Remat);

/// A send behind what another rank needs, and its receive where the reader then stands: so ranks never wait for each
/// other in a circle, however late a send ends. The schedule has no communication yet, and has passed check_schedule,
/// or is of forward passes alone. `slots`: how many buffers a stage has for what it is given and gives on, micro-batch
/// k in that of k % slots; a receive then stands behind the last action that needs what its buffer held before.
/// `waiting`: how many receives of a stage in one direction may have been posted for what no action has used yet.
/// Nothing where its computations wait in a circle, or for a slot for ever.
std::optional<PipelineSchedule> with_communication(const PipelineSchedule&, std::optional<int32_t> slots = {},
                                                   std::optional<int32_t> waiting = {});

/// The same with as few slots as there can be, from `least` on.
struct SlottedSchedule {
  PipelineSchedule schedule;
  int32_t slots;
};
std::optional<SlottedSchedule> with_fewest_slots(const PipelineSchedule&, int32_t least,
                                                 std::optional<int32_t> waiting = {});

/// I and W of one stage and micro-batch that stand beside each other become B.
PipelineSchedule with_whole_backwards(PipelineSchedule);

/// UNSHARD before stages are used and RESHARD when `most` others are used next, so that no rank holds the whole
/// parameters of more than that.
PipelineSchedule with_gathered_parameters(PipelineSchedule, int most = 3);

/// REDUCE_GRAD behind the last gradient of each stage.
PipelineSchedule with_reduced_gradients(PipelineSchedule);

}  // namespace mesh
