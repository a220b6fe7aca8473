// exposed.h: how long a rank waits for others: of the time of collectives what no computation hides.
#pragma once
#include "codegen/layout/predict.h"
#include "codegen/program/program.h"

namespace mesh {

/// Seconds of a step in which a rank only waits. Collectives are made one after the other, each from its start on,
/// while the rank computes; what is not done at its wait is waited for. `prediction` is of the program's first entry,
/// with the program's calls (combine.h).
double exposed_seconds(const Program&, const Prediction& prediction);

}  // namespace mesh
