// verify_memory.h: that buffers lie in their spaces, and that none lies in memory that another one has at that time.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/branches.h"
#include "codegen/program/program.h"

namespace mesh {

/// What is wrong with the memory plan, on ranks of these classes. Of three or more buffers that share memory wrongly at
/// least one pair is named, not all: the plan is wrong by one.
std::vector<std::string> verify_memory(const Program&, const RankClasses&);

}  // namespace mesh
