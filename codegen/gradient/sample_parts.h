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

/// What a name of the samples is called in a part; unset for another dim.
DimId name_in_part(const SampleParts&, DimId);

/// What the dims of a loop over parts are called: its turns, and in front of a name of samples those of one.
struct PartNames {
  const char *turn, *part;
};
/// The name, or a longer one that no dim has.
std::string fresh_dim_name(const Graph&, std::string name);
/// Adds to the graph the dims of a loop of so many turns, called `turn`, and of what each has of the samples by every
/// name of theirs, called `part` and that name; gives the parts with them. The graph's own samples are cut into `cut`
/// parts: into one where they are those of a turn.
SampleParts declare_parts(Graph&, SampleParts, int64_t turns, int64_t cut, const PartNames&);

/// E0413 unless samples come first in every input that has them, and nothing that is kept has them.
bool samples_first(const Graph&, const SampleParts&, DiagnosticSink&);

/// The turn, an i32, of the loop over `turns` around a body.
ValueId turn_around(Graph&, BodyId, DimId turns);

/// With the loop over the turns built.
void name_parts(Graph&, const SampleParts&, const std::vector<GatheredValue>&);

}  // namespace mesh
