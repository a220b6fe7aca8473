// reshard_moves.h: the single steps by which a value may come from one placement to others.
#pragma once
#include <vector>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

struct Move {
  ReshardStep step;  // without bytes and seconds
  Placement after;
};

/// All collectives over lists of axes that a value which lies as `at` can go through on its way to `to`: sums that `to`
/// does not keep pending are completed or scattered, the last axes of a dim are gathered or moved behind those of
/// another, one of `axes` that holds copies is sliced, what lies at some coordinates comes to all and the reverse (what
/// varies stays, and comes of copies alone), a dim is dealt anew, parts change owners on `axes` (not where `permuted`
/// already: two permutes are one), each element goes straight to where it lies in the end.
std::vector<Move> moves(const MeshShape&, const std::vector<AxisId>& axes, const Placement& at, const Placement& to,
                        bool permuted);

}  // namespace mesh
