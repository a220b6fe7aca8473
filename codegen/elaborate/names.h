// names.h: the names by which values are known outside: for `fetch`, `verify`, layouts and messages.
#pragma once
#include <string>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// `path` means this term from now on. The value takes the name, in front of others if it has none; a wanted one is
/// kept for Graph::wanted.
void record_name(Elaboration&, const std::string& path, const Term&);

/// Makes the wanted values that lie in the loop's body visible outside, stacked by its dim.
void collect_wanted(Elaboration&, const Loop&, LoopOp&, Node&, BodyId outer);

/// Fills Graph::wanted. E0209 for a name that nothing has.
void finish_wanted(Elaboration&);

}  // namespace mesh::elaboration
