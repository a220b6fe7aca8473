// elaborate.h: syntax tree -> graph. Resolves names, evaluates dims, checks types and inlines blocks in one walk over
// the chosen model. Every mistake of the files is reported in one run; what follows from a mistake is not.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"
#include "frontend/imports.h"
#include "frontend/source.h"

namespace mesh {

/// For which entry of a program a spec is elaborated.
struct Purpose {
  enum class Kind : uint8_t { train, evaluate, begin, values, generate } kind = Kind::train;
  std::string state = {};  // begin: its path
  // What `training` means.
  bool training() const { return kind == Kind::train || kind == Kind::begin; }
};

struct ElaborateOptions {
  std::string model;                          // empty: the only one
  std::map<std::string, std::string> set;     // --set name=number, over dims and consts as the spec has them
  bool f64 = false;                           // `real`, `f32` and literals are f64 in the whole program
  std::vector<std::string> want_values = {};  // names or patterns (`layer.**`) of values that Graph::wanted must give
  Purpose purpose = {};
  /// How many ranks the axes of the layout's mesh have, asked once the dims and their sizes are known: for manual
  /// regions. An axis that is not named has one, and so has each where this is null.
  std::function<std::map<std::string, int64_t>(const Graph& dims)> axes = {};
};

/// Nothing when an error was reported, here or before (syntax). Values wanted inside a `repeat` come with the loop's
/// dim first.
std::optional<Graph> elaborate(const SourceProgram&, const SourceMap&, const ElaborateOptions&, DiagnosticSink&);

}  // namespace mesh
