// skipped_steps.h: what a run that scales its loss says at its end of the steps that it has skipped.
#pragma once
#include <cstdint>
#include <string>

#include "meshrt/program.h"
#include "meshrt/rank.h"

namespace meshrt {

/// On rank 0: how many of the first `steps` steps were skipped, as gradients of the scaled loss were not finite; of
/// replicas that train apart each one's number. Empty: none, or no loss is scaled. Collective.
std::string skipped_steps(Rank& rank, Program& program, int64_t steps);

}  // namespace meshrt
