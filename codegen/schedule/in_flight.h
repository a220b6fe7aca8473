// in_flight.h: how many micro-batches a stage holds something of at a time. Each rank follows its list, so that is
// known without times.
#pragma once
#include <set>

#include "codegen/schedule/schedule.h"

namespace mesh {

struct InFlight {
  int32_t inputs = 0;  // what came into the stage, from F to the end of B or W
  int32_t kept = 0;    // what its layers keep: from F to there, or, where R follows, in F itself and from R to there
  auto operator<=>(const InFlight&) const = default;
};

/// The slots of a ring in which those under way never meet, at any stage: as many as there are where stages take
/// micro-batches in their order.
int32_t ring_of(const PipelineSchedule&);

/// The same of what actions of one kind make and those of another need last: B is I and W, and the F of a micro-batch
/// without R is its R too.
int32_t ring_of(const PipelineSchedule&, ActionKind from, ActionKind to);

/// An action that uses what has slots: at one stage, or at all.
struct SlotUse {
  ActionKind kind;
  std::optional<int32_t> stage;
  auto operator<=>(const SlotUse&) const = default;
};

/// The slots of a ring of what stages hand on, of lists with messages: a stage has it from its receive, or from the
/// first of these actions, to the last of them, and where the next stage is the same rank's, until that takes it.
int32_t ring_of_message(const PipelineSchedule&, bool forward, const std::set<SlotUse>&);

/// The most receives of a stage in one direction that are posted at a time and not used yet.
int32_t most_waiting(const PipelineSchedule&);

/// The most of each stage. The schedule has passed check_schedule.
std::vector<InFlight> most_in_flight(const PipelineSchedule&);

}  // namespace mesh
