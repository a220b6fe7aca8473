// bundle.h: an emitted program together with the runtime's sources, as a folder that builds on a machine that has a C++
// compiler, BLAS and UCX, and nothing else of what Meshwright is made with.
#pragma once
#include <cstddef>

#include "codegen/emit/build.h"

namespace mesh {

/// Writes NAME.cpp, build.sh, README.md, the run file as NAME.json, what stands beside the program, and `runtime/`: its
/// sources, build.sh and the header-only libraries that they include, with their licences. Compiles nothing. The number
/// of files. Throws meshrt::Failure (Cause::environment) where the folder cannot be written or the runtime's sources
/// are not found, (Cause::data) where the run file is not YAML.
std::size_t write_bundle(const BuildPlan& plan);

}  // namespace mesh
