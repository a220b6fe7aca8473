// step_input.h: what may change from step to step without compiling again.
#pragma once
#include <cstdint>

namespace meshrt {

struct StepInput {
  int64_t step = 1;   ///< counts from 1
  int64_t steps = 0;  ///< train.steps, for schedules without their own
  double rate = -1;   ///< train.lr in place of the spec's rate or peak; negative: the spec's
  uint64_t seed = 1;
};

}  // namespace meshrt
