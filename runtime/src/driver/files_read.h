// files_read.h: the files that a run reads, which nothing that it writes may take the place of.
#pragma once
#include <string>

#include "meshrt/run_file.h"

namespace meshrt {

/// The key of the run file by which `path` is read, as "data.token.file"; empty: by none. `{step}` in it stands for any
/// number.
std::string key_that_reads(const RunFile& run, const std::string& path);

/// Throws Failure (Cause::data) where the run reads the file that a key says it writes.
void require_not_read(const RunFile& run, const Given<std::string>& written);

}  // namespace meshrt
