// prefetched.h: a program whose loops have what the next turn reads fetched in this one.
#pragma once
#include "codegen/program/program.h"

namespace mesh::tests {

/// The same program, but what a turn of a loop reads of a stacked buffer, which the loop does not write, lies in one of
/// two slots, into the other of which the turn before copied it. Gives the same numbers, bit by bit.
Program prefetched(Program);

}  // namespace mesh::tests
