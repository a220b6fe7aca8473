// session.h: one compilation as a command sees it: the sources, what was reported, and the result.
#pragma once
#include <optional>

#include "codegen/commands/options.h"
#include "codegen/compile.h"
#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

class Session {
 public:
  /// UsageError for a lint that does not exist.
  Session(const SpecOptions&, const OutputOptions&);
  /// For a command that reads no spec.
  explicit Session(const OutputOptions& output) : output_(output) {}

  /// Compiles and prints what was reported on stderr. Nothing after an error, or where the request stops early.
  std::optional<Compiled> compile();
  /// As another request compiles it, with the levels of lints of this one; what is wrong then is not told.
  std::optional<Compiled> quietly(const CompileRequest&);
  bool failed() const { return sink.has_errors(); }
  /// Prints what has been reported since the last call.
  void report();

  CompileRequest request;
  SourceMap sources;
  DiagnosticSink sink;

 private:
  OutputOptions output_;
};

}  // namespace mesh
