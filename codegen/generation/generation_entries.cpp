#include "codegen/generation/generation_entries.h"

#include <algorithm>
#include <optional>

#include "codegen/generation/beams.h"
#include "codegen/generation/one_position.h"
#include "codegen/generation/prompt.h"
#include "codegen/graph/rewrite.h"
#include "meshrt/generation.h"

namespace mesh {

namespace {

/// What the logits are made of.
Graph logits_alone(const Graph& model) {
  Graph graph = model;
  graph.objective.reset();
  graph.metrics.clear();
  graph.outputs.clear();
  graph.wanted = {{"", graph.generation->logits}};
  const auto updates = [&](NodeId id) { return std::holds_alternative<UpdateOp>(graph.node(id).op); };
  for (Body& body : graph.bodies) std::erase_if(body.nodes, updates);
  remove_dead(graph);
  return graph;
}

/// Tensors that only other entries have.
void add_stored(Graph& first, const Graph& other) {
  for (const Stored& stored : other.stored) {
    if (std::ranges::find(first.stored, stored.path, &Stored::path) != first.stored.end()) continue;
    GraphBuilder build(first);
    build.span = stored.span;
    const StoredId made = build.stored(stored.kind, stored.path, stored.type, stored.initial);
    first.stored[made.index].stacked = stored.stacked;
  }
}

}  // namespace

DimId batch_of(const Graph& graph) {
  for (const DimId dim : graph.stored[graph.generation->input.index].type.dims)
    if (dim != graph.generation->along) return dim;
  return {};
}

std::vector<GenerationEntry> generation_entries(const Graph& model, DiagnosticSink& sink) {
  Graph logits = logits_alone(model);
  DimId beam;
  const DimId batch = batch_of(logits);
  if (batch) beam = GraphBuilder(logits).dim("generate.beam", logits.dim(batch).size, logits.dim(batch).span);
  const std::optional<OnePosition> position = at_one_position(logits, sink);
  if (!position) return {};
  std::vector<GenerationEntry> entries{{meshrt::generate_entry, "what comes after a position", position->graph}};
  const auto add = [&](const char* name, const char* meaning, std::optional<Graph> graph) {
    if (!graph) return;
    add_stored(entries.front().graph, *graph);
    entries.push_back({name, meaning, std::move(*graph)});
  };
  add(meshrt::prompt_entry, "all positions in one pass", at_all_positions(logits, *position));
  add(meshrt::begin_entry, "what the other inputs give", at_the_beginning(logits, *position));
  if (batch) add(meshrt::beams_entry, "sequences that go on from others", choosing_sequences(*position, batch, beam));
  return entries;
}

}  // namespace mesh
