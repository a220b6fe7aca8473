// traffic.h: what a reshard step sends, by the boundaries of the parts as they are.
#pragma once
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// Bytes that the rank which sends most sends in one execution of a step from placement `before` to `after`. For groups
/// of k, where parts are even: all_reduce 2 (k-1)/k of what a member holds; reduce_scatter (k-1)/k of what it held;
/// all_gather (k-1)/k of what it gets; all_to_all (k-1)/k of what it holds; permute what it holds; slice 0.
/// redistribute: what others need of what it holds and take from it. halo: the rows that others need, with the margins
/// that `after` has.
int64_t sent_bytes(const Graph&, const MeshShape&, const ValueType&, const Placement& before, const Placement& after,
                   const ReshardStep&);

/// Rows that the member which sends most sends to fill the margins of a dim of `size` in `parts` parts: to each other
/// member what that needs of its own part.
int64_t margin_rows(int64_t size, int64_t parts, const Margin&);

}  // namespace mesh
