// by_gradients.h: a gradient that is zero but for rounding. An optimizer that divides by a root of it, or takes its
// sign, makes a whole step of it, another one of other roundings, though nothing is wrong.
#pragma once
#include "codegen/interpret/compare.h"

namespace mesh {

/// Whether a parameter, or what an optimizer keeps of one, differs.
bool steps_differ(const Comparison&);

/// What differs counts as equal where `driven` gives the same: the reference, of which each step takes the program's
/// gradients (CompileRequest::given_gradients). Only where these equal those that it computes itself, in every step.
/// Both programs keep all gradients.
void allow_by_gradients(Comparison& found, const Program&, const Program& driven, const CompareOptions&);

}  // namespace mesh
