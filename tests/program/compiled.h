// compiled.h: a request, compiled for a test.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>

#include "codegen/compile.h"

namespace mesh::tests {

/// Throws what was reported where there is no program.
inline Compiled compiled(const CompileRequest& request) {
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> result = compile(request, sources, sink);
  std::string messages;
  for (const Diagnostic& diagnostic : sink.diagnostics()) messages += diagnostic.message + "\n";
  if (!result) throw std::runtime_error(messages);
  return std::move(*result);
}

}  // namespace mesh::tests
