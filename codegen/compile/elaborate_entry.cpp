#include "codegen/compile/choose_layout.h"
#include "codegen/compile/passes.h"
#include "codegen/entries.h"
#include "codegen/generation/causal.h"
#include "codegen/generation/write_out_windows.h"
#include "codegen/graph/draws.h"
#include "codegen/model_of_replica.h"

namespace mesh {
namespace {

std::optional<Graph> elaborated(const Compilation& c, const std::vector<std::string>& values, const Purpose& purpose,
                                DiagnosticSink& sink, const std::map<std::string, std::string>& sizes = {}) {
  const CompileRequest& request = c.request;
  std::map<std::string, std::string> set = sizes;
  set.insert(request.set.begin(), request.set.end());
  return elaborate(c.program, c.sources, {request.model, set, c.precision.f64, values, purpose, axes_of(c)}, sink);
}

/// Of a model as it is outside of training: it may write its sequence position by position, and is written so that each
/// position can be. E0512.
void make_causal(Graph& graph, DiagnosticSink& sink) {
  write_out_windows(graph);
  prove_causal(graph, sink);
}

/// A spec that says `generate` is one that can: as it is outside of training.
void check_generation(Compilation& c) {
  DiagnosticSink heard;  // what else is wrong, the training step has said
  std::optional<Graph> graph = elaborated(c, {}, {Purpose::Kind::generate}, heard);
  if (graph && graph->generation) make_causal(*graph, c.sink);
}

/// The first of the entries that generate, which makes them all; E0511 where the spec does not say what it generates.
void begin_generation(Compilation& c) {
  Graph graph = c.entry.graph;
  if (!graph.generation) {
    c.sink.error("E0511", Span{}, fmt::format("model `{}` does not say what it generates", graph.model))
        .help("a line of the model says it: `generate token along seq from logits`");
    return;
  }
  make_causal(graph, c.sink);
  if (!c.layout) choose_layout(c);  // its rules are of the model as it is written
  if (c.sink.has_errors()) return;
  c.generation = generation_entries(graph, c.sink);
}

/// The same values of twice as many samples; nothing where the spec cannot have so many.
std::optional<Graph> of_larger_batch(const Compilation& c) {
  const Dim& batch = c.entry.graph.dim(c.entry.graph.sample_dim);
  DiagnosticSink heard;
  std::optional<Graph> larger =
      elaborated(c, c.entry.values, c.entry.purpose, heard, {{batch.name, std::to_string(2 * batch.size)}});
  if (larger) keep_values_of_samples(*larger);
  return larger;
}

void take_values_of_samples(Compilation& c) {
  Graph& graph = c.entry.graph;
  keep_values_of_samples(graph);
  require_samples(graph, c.sink);
  if (c.sink.has_errors()) return;
  if (const std::optional<Graph> larger = of_larger_batch(c)) require_same_numbers(graph, *larger, c.sink);
}

void generate_entry(Compilation& c) {
  if (c.generation.empty()) begin_generation(c);
  const auto made = std::ranges::find(c.generation, c.entry.name, &GenerationEntry::name);
  if (made != c.generation.end()) c.entry.graph = made->graph;
}

}  // namespace

void elaborate_entry(Compilation& c) {
  EntryWork& entry = c.entry;
  if (!c.generation.empty()) return generate_entry(c);
  std::optional<Graph> graph = elaborated(c, entry.values, entry.purpose, c.sink);
  if (!graph) return;
  entry.graph = std::move(*graph);
  if (entry.is_step() && entry.graph.generation) check_generation(c);
  if (entry.purpose.kind == Purpose::Kind::generate) return generate_entry(c);
  entry.graph.generation.reset();
  switch (entry.purpose.kind) {
    case Purpose::Kind::train:
    case Purpose::Kind::generate: return;
    case Purpose::Kind::evaluate: keep_metrics(entry.graph); return draw_by_set(entry.graph);
    case Purpose::Kind::begin: return keep_updates(entry.graph);
    case Purpose::Kind::values: return entry.of_samples ? take_values_of_samples(c) : keep_values(entry.graph);
  }
}

void take_one_replica(Compilation& c) {
  const auto with = [&](const std::map<std::string, std::string>& sizes, DiagnosticSink& sink) {
    return elaborated(c, c.entry.values, c.entry.purpose, sink, sizes);
  };
  std::optional<Graph> own = model_of_replica(c.entry.graph, c.layout->replicas, with, c.sink);
  if (own) c.entry.graph = std::move(*own);
}

}  // namespace mesh
