// data_files.h: the files that a run reads, so that one which was replaced under its name is noticed by the run that
// goes on from its checkpoint.
#pragma once
#include <map>
#include <string>

#include "meshrt/checkpoint.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// Each data file and tokenizer, by input and name, as folders of data may move. What cannot be read is left out:
/// whoever reads all of it tells.
std::map<std::string, DataFile> data_files(const RunFile& run);

/// A text as a manifest keeps it: bytes that are not UTF-8 are replaced.
std::string as_utf8(const std::string& text);

}  // namespace meshrt
