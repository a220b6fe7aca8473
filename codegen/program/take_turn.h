// take_turn.h: a step that goes over all of a dim, as the turns of a loop over that dim make it.
#pragma once
#include <optional>

#include "codegen/program/program.h"

namespace mesh {

/// Where the buffer has the dim, behind those that loops fix; unset: it has it not, or a loop fixes it.
std::optional<size_t> position_of(const Program&, const Access&, DimId);

/// Whether the step is a nest each of whose iterations has an index along the whole dim and keeps to it: what it stores
/// leads with the dim, and so does all that it reads which has it. Turns of a loop over the dim may make it in any
/// order then.
bool may_take_turns(const Program&, const Step&, DimId);

/// Of a step that goes over all of a dim, what one turn of a loop over it does.
void take_turn(const Program&, Step&, DimId, LoopId);

}  // namespace mesh
