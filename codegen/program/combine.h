// combine.h: small collectives cost their latency. Those of one kind over one group whose operands are ready go in one
// call of the runtime.
#pragma once
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// Within each stretch of light steps (nests, copies, collectives) collectives are put off until nothing else can be
/// done; the ready ones of one kind, group, type and part are then one step. Nothing is computed otherwise, so that all
/// numbers stay.
void combine_collectives(Program&);

/// By reshard step the first one of the call that makes it; itself where it is alone.
std::vector<uint32_t> calls_of_reshards(const Program&);

}  // namespace mesh
