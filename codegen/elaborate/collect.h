// collect.h: `collect[layer](h)`, after a `repeat`: what a name of its body was at the end of every turn, the loop's
// dim first. Turns that an `until` left out are zeros.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// E0217 where no loop over the dim has ended here, or none that binds the name.
Term collect(Elaboration&, Frame&, const ast::Call&, Span);

}  // namespace mesh::elaboration
