// changes.h: what a run does otherwise than the one that it goes on with.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/program_info.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// What a run reads, and whether in an order of its own: for the manifest. Files by their names alone, as folders of
/// data may move.
std::string data_text(const RunFile& run);

/// The learning rate of a run, or the peak of its schedule.
double rate_of(const ProgramInfo& info, const RunFile& run);

/// What is otherwise than in the run that wrote `before`, as far as its manifest tells: a line each.
/// `files`: what its data files are now, by rank 0.
std::vector<std::string> changes_since(const Manifest& before, const ProgramInfo& info, const RunFile& run,
                                       const std::map<std::string, DataFile>& files);

}  // namespace meshrt
