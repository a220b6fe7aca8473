// resolve_manual.h: manual regions under a layout: how many ranks the axes have of which regions make parts, and the
// rules that put each rank's part where it is.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "codegen/layout/resolve.h"

namespace mesh {

/// The axes of the chosen layout's mesh with their sizes, before there is a whole graph: `dims` has those of the spec.
/// None where the layout is not clear, which `resolve_layout` reports.
std::map<std::string, int64_t> axes_of_layout(const SourceProgram&, const Graph& dims, const LayoutOptions&);

/// Adds the rules of the graph's dims of ranks. E0427 for an axis that the layout uses for stages or replicas, and for
/// a rule that cuts a dim of a region over another axis.
void place_ranks(const Graph&, Layout&, DiagnosticSink&);

}  // namespace mesh
