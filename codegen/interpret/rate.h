// rate.h: the learning rate of a step.
#pragma once
#include "codegen/graph/graph.h"
#include "meshrt/step_input.h"

namespace mesh {

/// What the schedule gives at this step; `input.rate`, where it is not negative, takes the place of the spec's rate or
/// peak, and `input.steps` that of a schedule's own number of steps where the spec has none.
double learning_rate(const RateOp&, const meshrt::StepInput& input);

}  // namespace mesh
