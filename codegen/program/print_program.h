// print_program.h: a program as text, for `meshc ir SPEC program` and goldens: buffers with their places in memory,
// then each routine's steps, loops indented.
#pragma once
#include <string>

#include "codegen/program/program.h"

namespace mesh {

std::string print_program(const Program&);

/// "f32[batch/data, seq]": a local array's type.
std::string to_string(const Program&, const Buffer&);
/// "wq[layer]": an access; turns by their loops' dims.
std::string to_string(const Program&, const Access&);
/// One line that says what a step does, without its body.
std::string summary(const Program&, const Step&);

}  // namespace mesh
