// alternatives.h: rules that contradict each other: what a step takes with either of them.
#pragma once
#include <vector>

#include "codegen/compile.h"

namespace mesh {

/// Tries each of the alternatives that diagnostics have (frontend/diagnostic.h). Those that compile take the place of
/// their helps, the fastest step first, with its time, bytes and memory; where none does, or too many did before, those
/// with which this one is no longer wrong. What helps nothing is not proposed.
void price_alternatives(const CompileRequest&, const SourceMap&, const DiagnosticSink& levels,
                        std::vector<Diagnostic>&);

}  // namespace mesh
