// micro_batch_dims.h: the second half of micro_batches.h: with the loops over `time` built, the sample dim becomes that
// of a micro-batch inside them, positions and random numbers are counted over all samples, and what the caller sees has
// its own dims again.
#pragma once
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Something with samples that a caller of the step reads: an output, say.
struct GatheredValue {
  ValueId* wanted;  // where the graph names it
  ValueId stacked;  // [time, ...]: gathered from all turns
  std::vector<DimId> dims;
};

/// What a name of the samples is called in a micro-batch; unset for another dim.
DimId micro_name(const MicroBatches&, DimId);

/// Whether a value is of the samples that its graph is cut by.
bool has_samples(const Graph&, ValueId);

/// What the dims of a loop over parts are called: its turns, and in front of a name of samples those of one.
struct PartNames {
  const char *turn, *part;
};
/// Adds to the graph the dims of a loop of so many turns, called `turn`, and of what each has of the samples by every
/// name of theirs, called `part` and that name; says so in it. Its own samples are cut into `cut` parts: into one where
/// they are those of a turn.
void declare_parts(Graph&, MicroBatches, int64_t turns, int64_t cut, const PartNames&);

/// E0413 unless samples come first in every input that has them, and nothing that is kept has them.
bool samples_first(const Graph&, DiagnosticSink&);

void name_micro_batches(Graph&, const MicroBatches&, const std::vector<GatheredValue>&);

}  // namespace mesh
