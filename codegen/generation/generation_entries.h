// generation_entries.h: what a program that generates does when it is called (meshrt/generation.h).
#pragma once
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

struct GenerationEntry {
  std::string name, meaning;
  Graph graph;
};

/// `generate` first, which has the tensors of all; none after an error. Of a model that is causal (causal.h).
std::vector<GenerationEntry> generation_entries(const Graph& model, DiagnosticSink&);

/// The dim of a generating model that counts sequences; unset where there is one.
DimId batch_of(const Graph&);

}  // namespace mesh
