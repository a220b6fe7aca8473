// micro_batches.h: a step by micro-batches, or an evaluation by those of its parts. The samples are cut into `count`
// parts that one loop over a dim `time` goes through; what depends on samples happens inside, a part at a time, and
// what adds up over samples is carried from turn to turn and complete after the loop. Numbers do not change: losses
// were seeded by global counts.
//
// A value that needs a complete sum over samples and is itself needed for samples gets a loop of its own before the
// main one, with what leads to the sum (the number of valid tokens, say, of the inputs alone). Where the sum depends on
// parameters this costs a second forward pass: the lint batch_coupled.
#pragma once
#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Adds the two dims to the graph, whose sample dim has a multiple of `count` elements, and says so in it.
void declare_micro_batches(Graph&, int64_t count, Span);

/// Rewrites a graph of forward nodes, or of forward and gradient nodes, if it is cut into micro-batches. Inputs become
/// [turns, part, ...]: the same elements in the same order. Wanted values keep their dims. E0413 for what needs the
/// whole batch at once: a dim made of samples, a scan over them, a sum of them used inside a `repeat`.
void run_by_micro_batches(Graph&, DiagnosticSink&);

}  // namespace mesh
