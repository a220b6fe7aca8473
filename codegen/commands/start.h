// start.h: a spec's program built into the cache and started on this host: what `run`, `evaluate`, `predict`,
// `generate` and `score` have in common.
#pragma once
#include <string>
#include <vector>

#include "codegen/commands/session.h"

namespace mesh {

/// Throws where this host cannot start the program's ranks. False where it should not, which has been reported.
bool may_start(Session&, const Compiled&);

/// Becomes the program, with these words before and behind those of the run file; the exit code where it could not be
/// built. Throws meshrt::Failure (Cause::environment) where it does not start.
int start_program(Session&, const SpecOptions&, const OutputOptions&, const Compiled&,
                  const std::vector<std::string>& before, const std::vector<std::string>& behind);

}  // namespace mesh
