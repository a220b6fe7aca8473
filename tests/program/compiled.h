// compiled.h: a request, compiled for a test.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>

#include "codegen/compile.h"

namespace mesh::tests {

/// Throws what was reported where there is no program. Sums over samples may be made in a pass of their own.
inline Compiled compiled(const CompileRequest& request) {
  SourceMap sources;
  DiagnosticSink sink;
  sink.set_lint_level("batch_coupled", LintLevel::allow);
  std::optional<Compiled> result = compile(request, sources, sink);
  std::string messages;
  for (const Diagnostic& diagnostic : sink.diagnostics()) messages += diagnostic.message + "\n";
  if (!result) throw std::runtime_error(messages);
  return std::move(*result);
}

/// The steps of a training step.
inline Steps& train(Program& program) { return program.routines[program.step().run].steps; }

}  // namespace mesh::tests
