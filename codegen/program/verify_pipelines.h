// verify_pipelines.h: that the steps of a pipeline's actions may be executed in the order of its lists, while what its
// stages hand on comes and goes. Part of verify_program.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/branches.h"
#include "codegen/program/program.h"

namespace mesh {

/// One message for each collective among stages; for each step that touches what is received before the receive, or
/// writes what is sent behind the send; for each action that a list lacks or has twice; and for each place of a list
/// where a message would come into a slot that an earlier turn still uses, or is sent before it is made, or received
/// behind its reader; and one where ranks would wait for room for messages for ever.
std::vector<std::string> verify_pipelines(const Program&, const Routine&, const RankClasses&);

}  // namespace mesh
