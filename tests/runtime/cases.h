// cases.h: collectives against a sequential oracle, run inside the ranks of a job, whatever carries it. Inputs are
// functions of (rank, index), so every rank computes what it must receive; sums in group order make it equal bit for
// bit, and with it all transports to each other.
#pragma once
#include "meshrt/rank.h"

namespace meshrt::test {

/// Runs every collective, type, reduction and size over the group of `axes`. Throws std::runtime_error naming the first
/// case whose result differs. `rounds` > 1 repeats all with other inputs.
void run_cases(Rank& rank, std::span<const Axis> axes);

/// The groups that a job of this many ranks is tested with: all ranks; for six also the groups of a 2 x 3 mesh.
void run_all_cases(Rank& rank);

}  // namespace meshrt::test
