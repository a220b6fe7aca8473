// stage_turns.h: what the actions of a pipeline do with values that have a part for every turn of its loop, outside of
// that: where a rank has several stages, each action does it for the turns of its own.
#pragma once
#include "codegen/program/program.h"

namespace mesh {

/// Puts the steps of an action that go over all turns of a rank into loops over those of the stage under way.
void take_turns_of_stage(Program&, LoopId stage, Steps&);

}  // namespace mesh
