// progress.h: whether ranks that follow their lists ever wait for each other for ever. Lists are fixed, and messages
// are known by stage and micro-batch, so one way through them tells for all: who can go on does.
#pragma once
#include <string>

#include "codegen/schedule/schedule.h"

namespace mesh {

/// How messages travel where the lists do not say when. An edge is a pair of neighbouring stages on two ranks, in one
/// direction.
struct Transport {
  int32_t send_slots = 1;       // messages of an edge under way before its sender waits; 0: each until it is received
  int32_t posted_receives = 1;  // of an edge ahead of their reader; 0: a receive begins when its reader's turn comes
};

struct Wait {
  int rank;
  size_t at;       // place in its list
  Action awaited;  // what would let it go on
  int on;          // the rank that has it
};

/// Where ranks stop, one entry for each that cannot go on; empty where all come to their ends. Of lists without
/// communication by `transport`; of others by rendezvous: a send ends when its receive has begun, and a receive lets
/// its rank go on at once. The schedule has passed check_schedule.
std::vector<Wait> find_deadlock(const PipelineSchedule&, const Transport& transport = {});

/// The same of lists with communication whose sends nobody waits for but who fills the slot that one is sent from: of
/// what a stage is given and gives on in one direction, micro-batch k lies in slot k % slots.
std::vector<Wait> find_deadlock_in_slots(const PipelineSchedule&, int32_t slots);

/// The fewest receives of every edge that have to be posted ahead so that a list of computations comes to its end, with
/// one slot for sends: as many buffers an edge needs. 0 where no number is enough.
int32_t least_slots(const PipelineSchedule&);

/// "rank 0 at 0SEND_F1 waits for 1RECV_F1 of rank 1\nrank 1 at ...", each waiting for the next one, the last for the
/// first.
std::string describe_deadlock(const PipelineSchedule&, const std::vector<Wait>&);

/// steps[k][rank]: what each rank does if each makes at most one action in a step, one whose needs earlier actions have
/// met, or in this step those of ranks before it or those that do not wait. The last step is that where nobody can go
/// on.
std::vector<std::vector<Action>> steps_of(const PipelineSchedule&);

}  // namespace mesh
