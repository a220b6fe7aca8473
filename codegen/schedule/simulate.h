// simulate.h: how long a schedule takes, each rank making its list in order, as soon as what it needs has come.
// Messages wait for nobody; sends and receives in the lists take no time of a rank.
#pragma once
#include "codegen/schedule/schedule.h"

namespace mesh {

/// Times of a rank for one micro-batch through all of its stages, in any unit; evenly divided among these. B takes I +
/// W.
struct StageCosts {
  double forward = 1, input_gradient = 1, weight_gradient = 1, recompute = 0;
};

struct ScheduleCosts {
  std::vector<StageCosts> ranks;        // one for each
  std::vector<StageCosts> stages = {};  // where each stage's own are known, these in place of its rank's
  double latency = 0;                   // of a message between two ranks
  bool late_recompute = false;          // R waits for the gradient that it is for, as an I would
};

struct Simulation {
  struct Timed {
    Action action;
    double begin, end;
  };
  double makespan = 0;
  std::vector<double> idle;                 // by rank: of the makespan, what it computes nothing in
  std::vector<int> peak_in_flight;          // by rank: most micro-batches of its stages between F and the end of B or W
  std::vector<std::vector<Timed>> actions;  // by rank, computations alone
};

/// Of a schedule in which nobody waits for ever (progress.h).
Simulation simulate(const PipelineSchedule&, const ScheduleCosts&);

}  // namespace mesh
