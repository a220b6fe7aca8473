// read_once.h: the data of commands that use a model and do not train it: each sample once.
#pragma once
#include <vector>

#include "driver/validator.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// Sources as they are, but a file that the command line names is read whole unless the command line says which part:
/// `from` and `to` of the run file are those of its own file.
std::vector<Source> read_whole(std::vector<Source> sources);

/// What `evaluate` reads: `validation`; where there is none, or the command line names a file of `data`: that.
EvaluationSet evaluation_set(const RunFile&);

}  // namespace meshrt
