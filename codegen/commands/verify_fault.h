// verify_fault.h: `meshc verify --mutate`: the check itself on trial. One fault is built into the program before it is
// compared.
#pragma once
#include <functional>
#include <string>

#include "codegen/interpret/compare.h"

namespace mesh {

/// `fault` is KIND:N, or "list", which prints how many there are of each kind. `compile` makes the program anew. What
/// was done goes to stdout, and so does what the verifier says of it: the program is `refused` then. Where no number
/// differs because none can, that is said too ("harmless: ...").
Comparison compare_with_fault(const std::string& fault, const std::function<Program()>& compile,
                              const Program& reference, const CompareOptions&, bool& refused);

}  // namespace mesh
