// gathering.h: the coordinator of a job whose ranks others have started: waits for them all, finds out which run on one
// host, and then coordinates.
#pragma once
#include <chrono>

#include "launch/door.h"

namespace meshrt {

/// Returns the exit code of the job; messages go to stderr. Throws Failure (Cause::environment) naming the ranks that
/// have not come within `limit`.
int coordinate(Door& door, int ranks, std::chrono::milliseconds limit);

}  // namespace meshrt
