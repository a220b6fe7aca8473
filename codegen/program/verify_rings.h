// verify_rings.h: what is read of a ring was put there. Part of verify_program.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// One message for each access to a slot of a ring (TurnIndex::period) that no step has written by then.
std::vector<std::string> verify_rings(const Program&, const Routine&);

}  // namespace mesh
