// watched.h: which of a program's norms `log.watch` of a run file asks for.
#pragma once
#include <cstddef>
#include <vector>

#include "meshrt/program_info.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// Indices into ProgramInfo::watched in the order of the list, each name once. An entry is a norm's name, or one of
/// those that the program was compiled for. Throws Failure (Cause::data) for any other.
std::vector<size_t> watched_norms(const ProgramInfo& info, const RunFile& run);

}  // namespace meshrt
