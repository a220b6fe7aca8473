// check_rest.h: what `meshc check` says of the models and layouts that the command does not choose.
#pragma once
#include "codegen/compile.h"

namespace mesh {

/// Where the command leaves open which model or layout is meant, the first of the spec: a check needs none in
/// particular.
void choose_first(CompileRequest&, SourceMap&);

/// Elaborates every other model, and compiles the chosen model under every other layout, as far as `plan` does.
/// Mistakes are errors there too; what this version cannot compile yet is only the lint not_built_yet. Then tells of
/// what nothing uses, and of parameters that the loss does not. Says nothing after syntax errors.
void check_rest(const CompileRequest&, SourceMap&, DiagnosticSink&);

}  // namespace mesh
