// compilation.h: what the passes of a compilation read and write.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/elaborate/elaborate.h"
#include "codegen/elaborate/precision.h"
#include "codegen/generation/generation_entries.h"
#include "codegen/gradient/regions.h"
#include "codegen/layout/budget.h"
#include "codegen/layout/cut.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/place.h"
#include "frontend/imports.h"

namespace mesh {

/// An entry to compile, and how far it has come.
struct EntryWork {
  std::string name, meaning;
  Purpose purpose;
  std::vector<std::string> values = {};  // that it must give: outputs, or of the step what fetch and verify ask for
  bool of_samples = false;               // ValuesEntry::of_samples
  Graph graph = {};
  bool begins_complete = false;  // its graph was made of the training step's: it needs no pass of the model
  int64_t after_steps = 0;       // Entry::after_steps
  StoredId begins = {};          // Entry::begins, where the name does not say it
  std::vector<Region> regions = {};
  ShardedGraph sharded = {};
  bool is_step() const { return purpose.kind == Purpose::Kind::train; }
  bool over_batches() const { return purpose.kind == Purpose::Kind::evaluate; }
};

/// What the passes read and write. Each reports what is wrong with the spec.
struct Compilation {
  const CompileRequest& request;
  SourceMap& sources;
  DiagnosticSink& sink;
  SourceProgram program = {};
  Precision precision = {};
  std::vector<Rule> rings = {};       // that the memory asks for, beside the rules of the layout
  std::optional<Layout> layout = {};  // known once the dims of the first entry are
  std::vector<Limit> budget = {};
  Machine machine = {};
  std::shared_ptr<GraphFacts> facts = {};  // of the step that a search has placed before
  MaySplit splits = [this](const std::vector<DimId>& dims, DimId dim, DimId beside) {
    return may_split(*layout, dims, dim, beside);
  };
  std::vector<GenerationEntry> generation = {};  // of a program that generates, once the first is elaborated
  std::set<std::string> narrow_caches = {};      // that the first of them reads in fewer bits alone
  EntryWork entry = {};                          // the one under way
  Compiled result = {};
};

}  // namespace mesh
