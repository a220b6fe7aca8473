// lower_schedule.h: what is added to lists of computations before they are run: recomputation, messages, parameters
// that are gathered, gradients that are summed.
#pragma once
#include "codegen/schedule/progress.h"

namespace mesh {

/// R before each B or I, which so begins before the gradient has come where there is time; except_last leaves out the
/// last micro-batch, whose activations are still there.
PipelineSchedule with_recompute(PipelineSchedule, Remat);

/// A send behind what another rank needs, and its receive where the reader then stands: so ranks never wait for each
/// other in a circle, however late a send ends. The schedule has no communication yet, and has passed check_schedule,
/// or is of forward passes alone. `waiting`: how many receives of a stage in one direction may have been posted for
/// what no action has used yet; the stage then has slots_of_messages, and what fills one stands behind the receive of
/// what was sent from it before. Nothing where its computations wait in a circle, or for room for ever.
std::optional<PipelineSchedule> with_communication(const PipelineSchedule&, std::optional<int32_t> waiting = {});

/// Who waits for whom where no more may wait than so many: places are those in the lists of computations. Empty where
/// all ranks come to their ends.
std::vector<Wait> waits_for_room(const PipelineSchedule&, int32_t waiting);

/// The fewest from `least` on with which all ranks do.
int32_t least_waiting(const PipelineSchedule&, int32_t least = 1);

/// Of what a stage is given and gives on in one direction, micro-batch k lies in slot k % that: those that wait, and
/// one more, from which is sent meanwhile.
int32_t slots_of_messages(const PipelineSchedule&, int32_t waiting);

/// With room for so many that wait, or for more where these are too few; where nothing is asked, for as many as come
/// before their turn where all actions take equally long.
struct WithMessages {
  PipelineSchedule schedule;
  int32_t waiting;
};
std::optional<WithMessages> with_messages(const PipelineSchedule&, std::optional<int32_t> waiting = {});

/// I and W of one stage and micro-batch that stand beside each other become B.
PipelineSchedule with_whole_backwards(PipelineSchedule);

/// I, then W, in place of each B: what the stage before waits for is sent before the weights' gradients are computed.
PipelineSchedule with_split_backwards(PipelineSchedule);

/// UNSHARD before stages are used and RESHARD when `most` others are used next, so that no rank holds the whole
/// parameters of more than that.
PipelineSchedule with_gathered_parameters(PipelineSchedule, int most = 3);

/// REDUCE_GRAD behind the last gradient of each stage.
PipelineSchedule with_reduced_gradients(PipelineSchedule);

}  // namespace mesh
