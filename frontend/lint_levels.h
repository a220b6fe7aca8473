// A sink beside another one, for what is compiled on trial.
#pragma once

#include "frontend/diagnostic.h"

namespace mesh {

// Empty, and takes lints as `sink` does.
inline DiagnosticSink with_levels_of(const DiagnosticSink& sink) {
  DiagnosticSink same;
  for (const Lint& lint : known_lints()) same.set_lint_level(lint.name, sink.lint_level(lint.name));
  return same;
}

}  // namespace mesh
