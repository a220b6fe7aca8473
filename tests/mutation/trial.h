// trial.h: the check itself on trial: one fault is built into a program before it is compared with that of one rank.
#pragma once
#include <optional>
#include <string>

#include "codegen/interpret/compare.h"

namespace mesh {

struct Verdict {
  Comparison found;
  bool refused = false;  // by the verifier of programs
};

/// `fault` is KIND:N, or "list", which prints how many there are of each kind. What was done goes to stdout, and so
/// does what the verifier says of it. Where no number differs because none can, that is said too ("harmless: ...").
/// `driven`: by which the reference steps by the program's gradients (by_gradients.h), if there are steps.
Verdict try_fault(const std::string& fault, const Program&, const Program& reference,
                  const std::optional<Program>& driven, const CompareOptions&);

}  // namespace mesh
