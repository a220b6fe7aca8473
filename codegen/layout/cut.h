// cut.h: how many turns of its loops each stage of a pipeline has, as the deal of each loop's dim.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/sharded_graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Sets the cut, and the deals that it makes of the turns: stages lie as the pipeline's lists have them.
void set_cut(Pipeline&, std::vector<int32_t> sizes);

/// The turns of the loop of this number that each stage has, as indices; of a stage without any where the next ones
/// begin.
std::vector<meshrt::IndexRange> turns_of_stages(const Pipeline&, size_t loop);

/// The layout of a graph in which loops over groups of turns stand for those of the pipeline: these are its layers
/// then.
Layout for_groups(const Layout&, const Graph&);

/// The pipeline's loop over a dim: one of its own, or, where these are over groups of turns, one over the turns, as a
/// graph without groups has it. Nothing for another dim.
std::optional<PipelineLoop> layers_over(const Graph&, const Pipeline&, DimId);
/// The same of whichever dims may be: its own loops, then those over the turns of groups.
std::vector<PipelineLoop> all_layers(const Graph&, const Pipeline&);
/// The turns that each stage has of such a loop.
std::vector<meshrt::IndexRange> turns_of_stages(const Graph&, const Pipeline&, DimId);

/// The dims of its loops: "`enc`, `dec`".
std::string names_of_loops(const Graph&, const Pipeline&);

/// `cut: "auto"` of a layout under which the step was `placed` with an even cut: the layout's pipeline and its rule get
/// the cut under which the slowest stage is fastest, each within so many bytes of a rank. E0422 where no cut is.
/// Whether it is another one.
bool cut_by_time(const ShardedGraph& placed, std::optional<int64_t> memory, Layout&, DiagnosticSink&);
/// Whether the cut under which a step was placed leaves each stage so many bytes of a rank.
bool cut_fits(const ShardedGraph& placed, std::optional<int64_t> memory);

/// Lint `uneven_stages`: another cut would make the slowest stage much faster.
void report_uneven_stages(const ShardedGraph&, DiagnosticSink&);

}  // namespace mesh
