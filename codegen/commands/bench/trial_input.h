// trial_input.h: what a trial runs on: a run file of its own, and where the user's names no data, random numbers.
#pragma once
#include <cstdint>

#include "codegen/commands/bench/trial.h"
#include "codegen/commands/options.h"

namespace mesh {

/// Writes run.yaml, which measures `steps` steps behind those to warm up, and traces the last of them into trace.json.
/// Its data is the user's where the run file gives every input files that are there, unless `random`; else random
/// numbers, of one batch that comes again at every step. Says whether they are random. Throws meshrt::Failure
/// (Cause::data) where the user's run file is wrong, or its files do not fit the program.
bool write_trial_input(const Session&, const SpecOptions&, const Compiled&, int64_t steps, bool random,
                       const ScratchFolder&);

}  // namespace mesh
