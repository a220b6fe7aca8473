// cut.h: how many turns of its loop each stage of a pipeline has, as the deal of the loop's dim.
#pragma once
#include <optional>
#include <vector>

#include "codegen/layout/sharded_graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Consecutive turns, so many a stage; blocks where those are the same.
meshrt::Deal deal_of_cut(const std::vector<int32_t>& sizes);

/// `cut: "auto"` of a layout under which the step was `placed` with an even cut: the layout's pipeline and its rule get
/// the deal under which the slowest stage is fastest, each within so many bytes of a rank. E0422 where no cut is.
/// Whether the deal is another one.
bool cut_by_time(const ShardedGraph& placed, std::optional<int64_t> memory, Layout&, DiagnosticSink&);

/// Lint `uneven_stages`: another cut would make the slowest stage much faster.
void report_uneven_stages(const ShardedGraph&, DiagnosticSink&);

}  // namespace mesh
