// model_passes.cpp: from the graph as it is written to the complete one.
#include <set>

#include "codegen/compile/choose_layout.h"
#include "codegen/compile/passes.h"
#include "codegen/entries.h"
#include "codegen/gradient/evaluated_parts.h"
#include "codegen/gradient/group_turns.h"
#include "codegen/gradient/micro_batches.h"
#include "codegen/gradient/products_of_turns.h"
#include "codegen/gradient/replicas.h"
#include "codegen/gradient/weight_loops.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/resolve.h"
#include "codegen/layout/rules.h"
#include "codegen/layout/stage_carries.h"
#include "codegen/layout/stages.h"
#include "codegen/optimizer/loss_scale.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/outer_step.h"
#include "codegen/optimizer/want.h"
#include "codegen/optimizer/watch.h"
#include "codegen/rewrites/divisible_loops.h"
#include "codegen/rewrites/narrow.h"
#include "codegen/rewrites/narrow_caches.h"
#include "codegen/rewrites/narrow_gradients.h"
#include "codegen/rewrites/narrow_parameters.h"
#include "codegen/rewrites/read_narrow.h"
#include "codegen/rewrites/recognise.h"
#include "codegen/rewrites/sink_renames.h"
#include "meshrt/generation.h"

namespace mesh {
namespace {

/// What writes a sequence reads each weight once a position: to cast one would cost more than it saves, so it is read
/// as it is kept. What attention reads of earlier positions is kept as it is read.
void narrow_generation(Compilation& c) {
  Graph& graph = c.entry.graph;
  const Type products = c.precision.products;
  if (is_narrow(products)) {
    narrow_products(graph, products,
                    is_narrow(c.precision.params) ? NarrowedProducts::all : NarrowedProducts::of_no_parameter);
    if (c.entry.name == meshrt::generate_entry) c.narrow_caches = caches_read_narrow(graph, products);
    narrow_caches(graph, c.narrow_caches, products);
  }
  read_narrow(graph);
}
}  // namespace

void take_layout(Compilation& c) {
  if (!c.layout) choose_layout(c);
  if (c.layout && c.layout->replicas && c.entry.is_step() && !c.sink.has_errors()) take_one_replica(c);
}

void recognise_ops(Compilation& c) {
  if (c.request.plain) return;
  recognise(c.entry.graph, c.splits);
  sink_renames(c.entry.graph);
  prepare_divisible_loops(
      c.entry.graph,
      [&](const std::string& scope, DimId dim) { return ruled_turns(*c.layout, scope, dim).has_value(); },
      [&](DimId dim) { return c.layout->pipeline && c.layout->pipeline.loop_over(dim); });
}

void narrow_entry(Compilation& c) {
  const auto [products, params] = std::pair(c.precision.products, c.precision.params);
  if (is_narrow(params)) narrow_parameters(c.entry.graph, params);
  if (c.entry.purpose.kind == Purpose::Kind::generate) narrow_generation(c);
  else if (is_narrow(products)) narrow_products(c.entry.graph, products);
}

/// Loops of which no more is to be kept: their turns are computed again, or are those of a pipeline's stages.
std::set<DimId> turn_by_turn(const Compilation& c, const ComputedAgain& again) {
  std::set<DimId> dims;
  for (const auto& [dim, turns] : again.loops) dims.insert(dim);
  for (const PipelineLoop& loop : c.layout->pipeline.loops) dims.insert(loop.dim);
  return dims;
}

/// Over batches, counts stay sums that add up, but for those within a loop of micro-batches: they are not carried.
void differentiate_entry(Compilation& c) {
  Graph& graph = c.entry.graph;
  const bool generates = c.entry.purpose.kind == Purpose::Kind::generate;
  const Replicas* replicas = c.layout->replicas && !generates ? &c.layout->replicas : nullptr;
  const bool cut = (c.layout->accumulate > 1 || c.layout->pipeline) && !generates;
  if (c.entry.is_step() && c.precision.loss_scale) declare_loss_scale(graph, *c.precision.loss_scale);
  if (c.entry.over_batches() && (cut || replicas)) fold_counts(graph, Counts::in_loops);
  if (replicas && !c.entry.is_step()) {
    const auto micro_batches = cut ? std::optional(c.layout->accumulate) : std::nullopt;
    declare_evaluated_parts(graph, replicas->count, micro_batches, replicas->span);
  } else {
    if (replicas) declare_replicas(graph, replicas->count, replicas->span);
    if (cut) declare_micro_batches(graph, c.layout->accumulate, c.layout->accumulate_span);
  }
  graph.micro_batches.by_stages = cut && c.layout->pipeline;
  ComputedAgain again;
  if (c.entry.is_step()) again = group_turns(graph, c.layout->remat);
  if (cut) carry_through_loops(graph, for_groups(*c.layout, graph));
  if (c.entry.over_batches()) label_regions(graph);
  else graph = differentiated(graph, again);
  if (c.entry.is_step() && !c.request.plain) multiply_behind_loops(graph, turn_by_turn(c, again));
  if (c.entry.is_step()) want_gradients(graph, c.request.wanted, c.sink);
}

void complete_entry(Compilation& c) {
  Graph& graph = c.entry.graph;
  const bool apart = c.entry.is_step() && c.layout->replicas;
  if (apart) run_by_replicas(graph, c.sink);
  else if (c.layout->replicas && c.entry.purpose.kind != Purpose::Kind::generate) evaluate_by_replicas(graph, c.sink);
  else run_by_micro_batches(graph, c.sink);
  if (c.sink.has_errors()) return;
  if (c.entry.is_step() && is_narrow(c.precision.sums)) narrow_gradients(graph, c.precision.sums);
  if (c.entry.is_step()) {
    unscale_gradients(graph);
    if (c.request.given_gradients) read_gradients(graph);
    want_norm(graph, c.request.wanted);
    append_watched(graph, c.request.watch);
    verify_graph(graph, "append_watched");
  }
  graph = completed(graph);
  if (apart) store_outer_momentum(graph, c.layout->replicas.outer);
  const Layout layout = for_groups(*c.layout, graph);
  begin_divided_sums_at_zero(graph, layout);
  separate_stage_sums(graph, layout);
  const std::vector<ValueId> handed_on = recompute_stages(graph, layout);
  if (layout.pipeline.has_weights_apart()) {
    std::vector<DimId> dims;
    for (const PipelineLoop& loop : layout.pipeline.loops) dims.push_back(loop.dim);
    separate_weight_gradients(graph, dims, handed_on);
  }
  check_stages(graph, layout, c.sink);
}

}  // namespace mesh
