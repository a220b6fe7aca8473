// bound.h: steps that go along a dim no further than they are told. An entry that writes a text needs at each position
// what stands up to it; what a cache holds behind that has no meaning, and nothing that the entry gives is made of it
// (generation/needed.h). So nests and products leave it out; calls and collectives, which have the sizes of whole
// values, move it without harm.
#pragma once
#include "codegen/program/program.h"

namespace mesh {

/// Gives the steps of each routine its bounds: the last thing that is done to nests and products. Along a dim that is
/// not held in order, or along which a product walks inside of another dim, no step has a bound.
void bound_steps(Program&);

}  // namespace mesh
