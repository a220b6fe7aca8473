// reshard_question.h: the tensor that `meshc reshard` is asked about, read from the command line.
#pragma once
#include <optional>
#include <string>

#include "codegen/graph/graph.h"
#include "codegen/layout/placement.h"
#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

/// The options as written.
struct ReshardArguments {
  std::string mesh;      // "x=4,y=2"
  std::string shape;     // "a=16,b=16"
  std::string from, to;  // "a -> x * y; b -> none; partial z"
  Type type = Type::f32;
};

struct ReshardQuestion {
  Graph graph;  // the dims alone
  MeshShape mesh;
  ValueType type;
  Placement from, to;
};

/// Nothing when an error was reported; its place is in the option, which becomes a source of its own.
std::optional<ReshardQuestion> read_question(const ReshardArguments&, SourceMap&, DiagnosticSink&);

}  // namespace mesh
