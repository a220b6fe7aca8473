// emission.h: from a compiled spec to the text of its C++ program, as `build`, `run` and `ir SPEC cpp` need it.
#pragma once
#include <map>
#include <string>

#include "codegen/commands/session.h"

namespace mesh {

std::string emitted_text(const Session&, const SpecOptions&, const Compiled&);
/// What a run's folder tells of the program, by path: the plan as text and JSON, the spec and its imports.
std::map<std::string, std::string> texts_of_run(const Session&, const Compiled&);
/// "gpt" for specs/gpt.mesh: what the program is called.
std::string program_name(const SpecOptions&);

}  // namespace mesh
