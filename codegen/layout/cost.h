// cost.h: what work and communication cost on the named machine, in seconds.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/op.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/mesh.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// Predicted time of a call: ranks wait until all have come to it from usual work, then it is under way. `members`: of
/// the ranks over these axes only so many take part; 0: all.
double collective_seconds(const Machine&, const MeshShape&, const std::vector<AxisId>& axes, CollectiveKind,
                          int64_t sent_bytes, int64_t members = 0);
/// How long ranks wait for one another in a call after so many seconds of work.
double meeting_seconds(const Machine&, const MeshShape&, const std::vector<AxisId>& axes, double work);
constexpr double usual_work = 1e-3;  // where it is not known

/// How long it is under way: rounds times latency plus the bytes that a rank sends over bandwidth, by whether the
/// group's ranks share a host.
double transfer_seconds(const Machine&, const MeshShape&, const std::vector<AxisId>& axes, CollectiveKind,
                        int64_t sent_bytes, int64_t members = 0);

/// Of a call whose parts go round: a message a turn, with its meeting.
double ring_seconds(const Machine&, const MeshShape&, const ReshardStep& ring);

/// What an op of so many seconds waits for values that go round meanwhile: it hides what the network does. Ranks of one
/// host move the data themselves, and hide how long they would wait for each other.
double ring_wait(const Machine&, const MeshShape&, std::span<const ReshardStep* const> rings, double work);

/// Time of `flops` operations in `type` that touch `bytes` of memory, on one core, of an op of this effort: products,
/// attention and all other ops have rates of their own.
double compute_seconds(const Machine&, Effort, Type, double flops, double bytes);

/// How many of the bytes of an op's operands and results count as touched: elementwise work is fused with its
/// neighbours, its operands are mostly in the cache, but what is read beside its elements is not; a product's time is
/// that of its arithmetic.
double touched_bytes(const Graph&, const Node&, double bytes);

/// "5.6 ms"
std::string time_text(double seconds);
/// "8 micro-batches", "1 micro-batch"
std::string micro_batches_text(int64_t count);

/// Whether the ranks of every group over these axes lie on one host.
bool within_node(const Machine&, const MeshShape&, const std::vector<AxisId>& axes);

}  // namespace mesh
