// fits_rank.h: whether one process can hold what the largest rank of a program holds.
#pragma once
#include "codegen/program/program.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// E0221, at what takes most, where the memory plan asks for more than a process can address.
bool fits_a_rank(const Program&, DiagnosticSink&);

}  // namespace mesh
