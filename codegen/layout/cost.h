// cost.h: what work and communication cost on the named machine, in seconds.
#pragma once
#include <string>
#include <vector>

#include "codegen/layout/machine.h"
#include "codegen/layout/mesh.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// Bytes that the member which sends most sends in one execution, for S bytes of the value within a group of k:
/// all_reduce 2 (k-1)/k S; reduce_scatter, all_gather, broadcast (k-1)/k S; all_to_all (k-1)/k of the local part;
/// permute the local part; slice 0.
int64_t collective_bytes(CollectiveKind, int64_t group, int64_t bytes_of_value);

/// Rows that the member which sends most sends to fill the margins of a dim of `size` in `parts` parts: to each other
/// member what that needs of its own part.
int64_t margin_rows(int64_t size, int64_t parts, const Margin&);

/// Predicted time: steps times latency plus bytes over bandwidth, by whether the group's ranks share a host.
double collective_seconds(const Machine&, const MeshShape&, const std::vector<AxisId>& axes, CollectiveKind,
                          int64_t bytes_of_value);

/// Time of `flops` operations in `type` that touch `bytes` of memory, on one core.
double compute_seconds(const Machine&, Type, double flops, double bytes);

/// Whether the ranks of every group over these axes lie on one host.
bool within_node(const Machine&, const MeshShape&, const std::vector<AxisId>& axes);

}  // namespace mesh
