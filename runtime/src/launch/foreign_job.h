// foreign_job.h: joins a job whose ranks another launcher has started. One process of each host becomes its launcher
// beside being a rank: it forks an agent, and rank 0 also forks the coordinator. Deaths are then seen and told as in a
// job of meshrun.
#pragma once
#include "launch/bootstrap.h"
#include "system/descriptor.h"

namespace meshrt {

/// This rank's socket to the agent of its host. To be called before any thread starts. Throws Failure
/// (Cause::environment).
Descriptor join_foreign_job(Bootstrap& bootstrap);

}  // namespace meshrt
