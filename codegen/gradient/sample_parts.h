// sample_parts.h: what loops over parts of the samples, micro-batches (micro_batches.h) and replicas (replicas.h), have
// in common: their dims, and with a loop built what they name. The samples become those of a part inside it, positions
// and random numbers are counted over all samples, and what the caller sees has its own dims again. Parts of parts are
// named from the inside out: first the micro-batches of a replica, as if its samples were all, then the replicas.
#pragma once
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Something with samples that a caller of the step reads: an output, say.
struct GatheredValue {
  ValueId* wanted;  // where the graph names it
  ValueId stacked;  // [turns, ...]: gathered from all turns
  std::vector<DimId> dims;
};

/// What the parts are, for messages: "micro-batches".
const char* parts_text(const SampleParts&);

/// What a name of the samples is called in a part; unset for another dim.
DimId name_in_part(const SampleParts&, DimId);

/// What the dims of a loop over parts are called: its turns, and what stands in front of each name of the samples in
/// that of a part.
struct PartNames {
  const char *turn, *part;
};
/// Adds to the graph the dims of a loop over so many parts, called `turn`, and of what each part has of the samples by
/// every name of theirs; gives the parts with them. `cut`: into how many the graph's samples are cut, 1 where it has
/// those of one part alone.
SampleParts declare_parts(Graph&, SampleParts, int64_t turns, int64_t cut, const PartNames&);

/// E0413 unless samples come first in every input that has them, and nothing that is kept has them.
bool samples_first(const Graph&, const SampleParts&, DiagnosticSink&);

/// The turn, an i32, of the loop over `turns` around a body.
ValueId turn_around(Graph&, BodyId, DimId turns);

/// Gives what is in loops over the turns of `parts` the names of a part, counts positions and draws over all samples,
/// and puts gathered values together. `within`: the parts of these, whose names have been given; none: unset.
void name_parts(Graph&, const SampleParts& parts, const SampleParts& within, const std::vector<GatheredValue>&);

}  // namespace mesh
