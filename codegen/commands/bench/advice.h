// advice.h: what would make a step faster, by what was measured and what is predicted for the machine at hand.
#pragma once
#include <string>
#include <vector>

#include "codegen/commands/bench/trial.h"
#include "codegen/layout/predict.h"
#include "codegen/program/exposed.h"

namespace mesh {

/// The program on the machine at hand, as predicted.
struct OnMachine {
  Compiled compiled;
  Prediction step;
  StepTime time;
  double model_flops;  // of a step that computes nothing twice
  const Machine& machine() const { return compiled.sharded().machine; }
  int64_t ranks() const { return compiled.sharded().layout.mesh.ranks(); }
  /// Of one rank, of the type in which products are computed.
  double flops_per_second() const;
  /// The share of what the ranks can multiply in a step that the model needs.
  double utilisation(double seconds_of_step) const {
    return model_flops / (seconds_of_step * static_cast<double>(ranks()) * flops_per_second());
  }
};

struct Advice {
  double seconds;  // of a step that it saves: as predicted, or at most
  bool at_most;
  std::string what, how;  // "layout `megatron` on data=1, model=2", "`--layout megatron --mesh data=1,model=2`"
};

/// Those that save a hundredth of the step or more, the best first. `request` is that of the program, planned for the
/// machine; `cores`, on which it ran.
std::vector<Advice> advice_for(const Session&, const OnMachine&, const Trial&, int cores);

}  // namespace mesh
