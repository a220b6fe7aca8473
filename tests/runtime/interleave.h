// interleave.h: calls of all kinds in several groups at once, which every rank starts, moves along and waits for in an
// order of its own.
#pragma once
#include "meshrt/rank.h"

namespace meshrt::test {

/// Throws what is wrong.
void run_interleaved(Rank& rank);

/// Calls that end although no rank does anything but look whether they have.
void run_beside(Rank& rank);

}  // namespace meshrt::test
