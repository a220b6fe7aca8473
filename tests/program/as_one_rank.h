// as_one_rank.h: the oracle of layouts: a request's program gives what that of one rank gives.
#pragma once
#include <string>

#include "codegen/compile.h"

namespace mesh::tests {

/// Three training steps of the program as it is compiled, and without fusion.
void expect_as_one_rank(const CompileRequest&, const std::string& what);

}  // namespace mesh::tests
