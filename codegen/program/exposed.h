// exposed.h: how long a rank waits for others: of the time of collectives what no computation hides, and in a pipeline
// for other stages.
#pragma once
#include "codegen/layout/predict.h"
#include "codegen/program/program.h"

namespace mesh {

/// What a step of the program's first entry costs, by the calls that the program makes.
Prediction predict(const Program&);

/// Seconds of a step in which a rank only waits. Collectives are made one after the other, each from its start on,
/// while the rank computes; what is not done at its wait is waited for. `prediction` is the program's. What lies in a
/// pipeline is not counted.
double exposed_seconds(const Program&, const Prediction& prediction);

/// Where the seconds of a step go, of the rank that works longest.
struct StepTime {
  double compute, exposed;
  double bubble;  // of a pipeline: in which its slowest stage waits for others
  double total() const { return compute + exposed + bubble; }
};

StepTime step_time(const Program&, const Prediction& prediction);

/// What layouts are compared by.
struct StepCost {
  double seconds;  // of a step
  int64_t memory;  // bytes that the largest rank holds
  int64_t bytes;   // that the rank which sends most sends in a step
};

/// Of a program whose first entry is a training step; `prediction` is the program's.
StepCost step_cost(const Program&, const Prediction& prediction);
StepCost step_cost(const Program&);

}  // namespace mesh
