// compile.h: the compiler, as one function: from the files of a spec to the program of one rank.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/budget.h"
#include "codegen/layout/graph_facts.h"
#include "codegen/program/entry.h"
#include "codegen/program/program.h"
#include "codegen/rewrites/recognise.h"
#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

/// An entry beside those that every program has: named values of the model on given inputs, as `training = false` has
/// them. They are its outputs, tensors called "ENTRY.VALUE".
struct ValuesEntry {
  std::string name;
  std::vector<std::string> values;
  bool of_samples = false;  // each has a value for every sample, whatever else is in its batch; else E0218
};

struct CompileRequest {
  std::vector<std::string> files;          // the spec, then files with more layouts
  std::string model, layout;               // empty: the only one, or the default
  std::string precision;                   // "", "f32", "f64" or what the spec calls one
  std::map<std::string, std::string> set;  // --set dim=n, const=number: as it would be written
  std::map<std::string, int64_t> mesh;     // --mesh axis=n
  std::optional<int64_t> ranks;            // -n
  std::string machine_file;                // empty: the generic machine
  std::vector<std::string> wanted;         // names that fetch and verify ask for; "grad(PATH)" too
  std::vector<std::string> watch;          // entries of `log.watch`; one that names nothing: throws Unwatchable
  std::string schedule;                    // a name, in place of the schedule that the layout's pipeline has
  std::optional<int64_t> memory;           // --memory: bytes that a rank may take
  double search_seconds = 10;              // that a search for what `auto` stands for may take, about
  bool past_limits = false;                // gives the result although the layout's budget is broken
  bool on_trial = false;                   // a way out is tried: none is looked for
  std::vector<ValuesEntry> entries;        // beside "train", "evaluate" and "begin.STATE"
  bool generate = false;                   // the entry "generate" in place of all others
  bool one_rank = false;                   // ignores layouts
  bool plain = false;                      // nothing recognised, nothing fused, no memory shared
  bool given_gradients = false;            // the step reads its gradients as inputs, "grad(PATH)": its updates alone
  std::string stop_after;                  // a pass of pass_names(), for `check` and `ir`; empty: all
  std::string stop_entry = "train";        // the entry for which it stops there
  /// Called after each pass if set; `entry` is empty for a pass of the spec or of the whole program.
  std::function<void(const std::string& entry, const std::string& pass, const std::string& text)> dump;
};

/// The memory that was said to be there, of a host or of a rank.
struct Room {
  int64_t ranks;   // that share it
  int64_t needed;  // by all of them, bytes
  int64_t bytes;
  bool fits() const { return needed <= bytes; }
};

/// What a search found for a layout that says `auto`.
struct FoundLayout {
  std::string layout;  // its name
  struct Line {
    std::string text, cost;  // "embed -> model", "without it a step takes 8.3 ms"
  };
  std::vector<Line> lines;
  std::string text;  // the whole layout: lines that were written, then these
  double seconds;    // of a step
  size_t tried;      // sets of rules
  bool proved;       // all that there are
};
/// "the best of all 120 sets of rules", "2,310 sets of rules tried, not proved the best"
std::string how_sure(const FoundLayout&);

struct Compiled {
  std::vector<Entry> entries;  // the training step first, then evaluation, then the others
  Program program;
  std::string spec_hash;                // of all files and of what was set on the command line
  std::string precision = "f32";        // what --precision chose
  std::vector<LimitState> budget = {};  // of the layout
  std::optional<Room> room = {};        // nothing is known of it: unset
  std::optional<FoundLayout> found = {};
  const ShardedGraph& sharded() const { return entries.front().sharded; }
};

/// The passes in order, with a line on each: what `meshc ir SPEC PASS` accepts.
std::vector<std::pair<std::string, std::string>> pass_names();

/// Nothing when an error was reported (or after `stop_after`). A compiler's own mistake is an exception
/// (std::logic_error).
std::optional<Compiled> compile(const CompileRequest&, SourceMap&, DiagnosticSink&);

/// Parts of the same for a search, which tries many layouts: the graph of a training step up to its placements, of
/// which the layout decides no more than it is asked for (`model`: that of one replica where replicas train apart); and
/// the program of such a graph alone.
std::optional<Graph> step_graph(const Graph& model, const Layout&, const MaySplit&, SourceMap&, DiagnosticSink&);
std::optional<Compiled> step_program(std::shared_ptr<GraphFacts> step, const Layout&, std::optional<int64_t> memory,
                                     SourceMap&, DiagnosticSink&);

}  // namespace mesh
