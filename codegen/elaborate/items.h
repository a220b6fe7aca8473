// items.h: square brackets after a value: `x[seq as key]`, `x[heads as kv * group]`, `size[seq]`, `position[seq]`.
#pragma once
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

Term index_expression(Elaboration&, Frame&, const ast::Index&, Span);

/// The dims that brackets list by name; `...` gives those of the block's signature that it does not name. Nothing when
/// an error was reported (E0201, E0310). `what` is how a message calls the owner of the brackets: "`sum`".
std::optional<std::vector<DimId>> listed_dims(Elaboration&, Frame&, const std::vector<ast::Item>&,
                                              const std::string& what);

}  // namespace mesh::elaboration
