// interleave.h: calls of all kinds in several groups at once, which every rank starts, moves along and waits for in an
// order of its own.
#pragma once
#include "meshrt/rank.h"

namespace meshrt::test {

/// Throws what is wrong.
void run_interleaved(Rank& rank);

}  // namespace meshrt::test
