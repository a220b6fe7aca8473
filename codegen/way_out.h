// way_out.h: the rule that would help, found by trying: each that may is written into the layout, and that is compiled.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compile.h"

namespace mesh {

/// A change of the layout's text.
struct Change {
  Span at;
  std::string text;   // that takes its place
  std::string shown;  // the rule as it then stands: "batch -> data { accumulate: 2 }"
  bool replaces;      // a rule that is there
};

struct WayOut {
  std::vector<Change> changes;  // each of the text that those before it have made
  Compiled compiled;
  int64_t excess;  // what is still too much: 0 where the changes help
};

/// How far a program is from what is wanted, in the unit of that; nothing where it breaks something else.
using Excess = std::function<std::optional<int64_t>(const Compiled&)>;

/// What may help under a layout, of which this is the result.
using Proposals = std::function<std::vector<Change>(const SourceMap&, const Compiled&)>;

/// Of the changes under which the spec compiles without a new warning, the one with the least excess; of equals the one
/// with the fastest step, then the first. While there is excess, further ones on top of it, `most` in all. Nothing
/// where none has less excess than `now`.
std::optional<WayOut> find_way_out(const CompileRequest&, const SourceMap&, const Compiled&, const Proposals&,
                                   const DiagnosticSink& told, const Excess&, int64_t now, int most);

/// What the spec compiles to with one change; nothing where it does not. What is said of it goes into the sink.
std::optional<Compiled> compiled_with(const Change&, const CompileRequest&, const SourceMap&, DiagnosticSink&);

/// Each of the first so many changes alone: calls `visit` with the result where the spec then compiles without a new
/// warning.
void try_changes(const CompileRequest&, const SourceMap&, const std::vector<Change>&, size_t most,
                 const DiagnosticSink& told, const std::function<void(const Change&, Compiled&&)>& visit);

/// What may keep a collective from being needed, or make another one of it: rules for what it moves.
std::vector<Change> changes_for(const CompileRequest&, const SourceMap&, const Compiled&,
                                const std::vector<PlannedCollective>& culprits);

/// What may save memory: micro-batches, remat, and rules that split what is large.
std::vector<Change> changes_for_memory(const CompileRequest&, const SourceMap&, const Compiled&);

}  // namespace mesh
