// statements.h: the statements of a model, a block or a loop, in order.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

void statements(Elaboration&, Frame&, const ast::Body&);

}  // namespace mesh::elaboration
