// divided.h: loops whose turns the ranks of some mesh axes have among them. Each rank makes its own turns alone, at the
// same time as the others theirs: what a turn makes varies over these axes, what all turns add up is a partial sum.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/layout/placement.h"

namespace mesh {

struct ShardedGraph;
class Stages;

/// By the body of a divided loop: how its turns are split.
using DividedLoops = std::map<BodyId, DimPlacement>;

/// How a layout splits the turns of a loop over `dim` that stands in `scope`, if one rule of its dim says so of all
/// that the loop makes.
std::optional<DimPlacement> ruled_turns(const Layout&, const std::string& scope, DimId dim);

/// The loops that a rule divides, whose turns are free (graph/free_turns.h) and in which no rule splits anything else
/// over the same axes; and those that the stages of a pipeline have among them.
DividedLoops divided_loops(const Graph&, const Layout&, const Stages&);

/// Over which axes what a body makes varies: those of all divided loops around it.
std::vector<Where> varying_in(const Graph&, const DividedLoops&, BodyId);

/// The turns that a rank makes of a loop, the one that makes most.
int64_t turns_made(const ShardedGraph&, const LoopOp&);

/// A sum of turns that a rule splits begins at zero; what it began at is added when the loop is over, once.
void begin_divided_sums_at_zero(Graph&, const Layout&);

}  // namespace mesh
