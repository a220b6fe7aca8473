// same_job.h: whether all ranks run the same thing. On a cluster they need not: an old program on one host, another
// copy of the run file, another build of the runtime.
#pragma once
#include <string>
#include <vector>

#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// Of this library, as in the project's meson.build: builds of different versions may make different calls.
inline constexpr const char* runtime_version = "0.1.0";

/// What must be equal on all ranks, a line each: "layout: data".
std::string identity_of(const ProgramInfo& info, const RunFile& run);

/// The first difference of a rank from rank 0, in words; empty: there is none.
std::string first_difference(const std::vector<std::string>& identities);

/// Throws Failure (Cause::mismatch) that names a rank and what differs there. Collective.
void check_same_job(Rank& rank, const ProgramInfo& info, const RunFile& run);

}  // namespace meshrt
