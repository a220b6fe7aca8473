// emission.h: from a compiled spec to the text of its C++ program, as `build`, `run` and `ir SPEC cpp` need it.
#pragma once
#include <string>

#include "codegen/commands/session.h"

namespace mesh {

std::string emitted_text(const Session&, const SpecOptions&, const Compiled&);
/// "gpt" for specs/gpt.mesh: what the program is called.
std::string program_name(const SpecOptions&);

}  // namespace mesh
