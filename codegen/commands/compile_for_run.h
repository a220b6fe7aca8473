// compile_for_run.h: a spec compiled for its run file: what that watches is computed by the program.
#pragma once
#include <optional>
#include <span>

#include "codegen/commands/session.h"
#include "meshrt/driver.h"
#include "meshrt/run_file.h"

namespace mesh {

/// Session::compile with `log.watch` of the run file and of the command line. Throws meshrt::Failure (Cause::data) for
/// a run file with mistakes, and for an entry that names nothing, at its place.
std::optional<Compiled> compile_for_run(Session&, const SpecOptions&);

/// meshrt::check_fits of a run file and this program.
void check_fits(const Session&, const Compiled&, const meshrt::RunFile&, meshrt::NamedFiles);

/// check_evaluates or check_predicts of meshrt/driver.h, for a program that is not built yet.
using CheckReads = void (&)(const meshrt::ProgramInfo&, std::span<meshrt::Tensor>, const meshrt::RunFile&,
                            const meshrt::ModelFiles&);
void check_reads(const Session&, const Compiled&, const SpecOptions&, const meshrt::ModelFiles&, CheckReads);

}  // namespace mesh
