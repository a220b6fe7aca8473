// compile.h: the compiler, as one function: from the files of a spec to the program of one rank.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/layout/budget.h"
#include "codegen/layout/sharded_graph.h"
#include "codegen/program/program.h"
#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

struct CompileRequest {
  std::vector<std::string> files;          // the spec, then files with more layouts
  std::string model, layout;               // empty: the only one, or the default
  std::string precision;                   // "", "f32" or "f64"
  std::map<std::string, std::string> set;  // --set dim=n, const=number: as it would be written
  std::map<std::string, int64_t> mesh;     // --mesh axis=n
  std::optional<int64_t> ranks;            // -n
  std::string machine_file;                // empty: the generic machine
  std::vector<std::string> wanted;         // names that fetch and verify ask for; "grad(PATH)" too
  std::vector<std::string> watch;          // entries of `log.watch`; one that names nothing: throws Unwatchable
  std::optional<int64_t> memory;           // --memory: bytes that a rank may take
  bool past_limits = false;                // gives the result although the layout's budget is broken
  bool on_trial = false;                   // a way out is tried: none is looked for
  bool one_rank = false;                   // ignores layouts
  bool plain = false;                      // nothing recognised, nothing fused, no memory shared
  std::string stop_after;                  // a pass of pass_names(), for `check` and `ir`; empty: all
  std::function<void(const std::string& pass, const std::string& text)> dump;  // called after each pass if set
};

/// The memory that was said to be there, of a host or of a rank.
struct Room {
  int64_t ranks;   // that share it
  int64_t needed;  // by all of them, bytes
  int64_t bytes;
  bool fits() const { return needed <= bytes; }
};

struct Compiled {
  Graph graph;           // the elaborated model, forward only
  ShardedGraph sharded;  // the training step
  Program program;
  std::string spec_hash;                // of all files and of what was set on the command line
  std::vector<LimitState> budget = {};  // of the layout
  std::optional<Room> room = {};        // nothing is known of it: unset
};

/// The passes in order, with a line on each: what `meshc ir SPEC PASS` accepts.
const std::vector<std::pair<std::string, std::string>>& pass_names();

/// Nothing when an error was reported (or after `stop_after`). A compiler's own mistake is an exception
/// (std::logic_error).
std::optional<Compiled> compile(const CompileRequest&, SourceMap&, DiagnosticSink&);

}  // namespace mesh
