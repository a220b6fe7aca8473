// verify_steps.h: what must hold of one step by itself. Part of verify_program.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// Messages on a step that has no bodies: its dims against its buffers', its shapes against its reshard step's.
std::vector<std::string> verify_step(const Program&, const Step&);

// Of these kinds of steps.
std::vector<std::string> verify_nest(const Program&, const Step&, const Nest&);
std::vector<std::string> verify_movement(const Program&, const Step&, const CollectiveStep&);
std::vector<std::string> verify_movement(const Program&, const Step&, const CombinedStep&);
std::vector<std::string> verify_movement(const Program&, const Step&, const MessageStep&);

}  // namespace mesh
