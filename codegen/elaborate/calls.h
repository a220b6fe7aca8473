// calls.h: what a call means: a block, an instance, a cast, or a function of the table in functions.h. A user's block
// may not have the name of a function.
#pragma once
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// The results of the call: one, except for blocks with several.
std::vector<Term> call_expression(Elaboration&, Frame&, const ast::Call&, Span);

}  // namespace mesh::elaboration
