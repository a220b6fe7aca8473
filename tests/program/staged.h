// staged.h: a program whose ranks take turns: what nobody makes today, made of any program whose layout leaves an axis
// of its mesh alone.
#pragma once
#include <string>

#include "codegen/program/program.h"

namespace mesh::tests {

/// The same program with its work dealt along an axis over which nothing is split or summed: each step of a routine,
/// every other loop as a whole, the rest of them step by step, is executed by the ranks of one coordinate alone, by
/// another one than the step before, and hands what it wrote to the other coordinates: their memory of it is filled
/// with -infinity, and the largest number of all is everybody's. Steps that write anything but real numbers, or stored
/// tensors, or use the axis, stay as they are. Gives the same numbers, bit by bit.
Program staged(Program, const std::string& axis);

}  // namespace mesh::tests
