// step_input.h: what may change from step to step without compiling again.
#pragma once
#include <cstdint>

namespace meshrt {

struct StepInput {
  int64_t step = 1;   ///< counts from 1
  int64_t steps = 0;  ///< train.steps, for schedules without their own
  double rate = -1;   ///< train.lr in place of the spec's rate or peak; negative: the spec's
  uint64_t seed = 1;
  int64_t first_sample = 0;  ///< the place of the batch's first sample in the set that is read
  int64_t distinct = 0;      ///< after so many samples those of the batch come again; 0: none does
};

/// The same for a batch that begins at this sample of the set.
inline StepInput reading(StepInput input, int64_t first_sample, int64_t distinct = 0) {
  input.first_sample = first_sample;
  input.distinct = distinct;
  return input;
}

}  // namespace meshrt
