// verify_program.h: what must hold of every program, whatever pass made it: run after lowering and by tests.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// One message a violation, empty for a program that is in order: every read is preceded by a write of this routine on
/// every rank that comes to it (or the buffer is stored), all ranks of a group come to its collectives, accesses fit
/// their buffers and steps, collectives fit their reshard steps and the shapes on both sides, buffers that live at the
/// same time lie apart, metrics are complete scalars.
std::vector<std::string> verify_program(const Program&);

}  // namespace mesh
