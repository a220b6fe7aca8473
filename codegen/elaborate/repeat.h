// repeat.h: loops. A `repeat` becomes a LoopOp: its carries are the names bound before and bound again inside, its
// slices the parameters of each turn.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

void repeat_statement(Elaboration&, Frame&, const ast::Repeat&, Span);

/// The names that a body binds, those of its loops and manual regions too.
std::vector<ast::Name> bound_names(const ast::Body&);

/// The value of an input or parameter here: inside the loops that it lies in, its turn.
ValueId read_stored(Elaboration&, const Binding&);

/// The turn of the open loop over `dim`, an i32 scalar; unset where no loop over it is open.
ValueId loop_index(Elaboration&, DimId dim);

}  // namespace mesh::elaboration
