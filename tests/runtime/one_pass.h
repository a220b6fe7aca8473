// one_pass.h: updates between a reduce-scatter and an all-gather, in one pass and one after the other.
#pragma once
#include "meshrt/rank.h"

namespace meshrt::test {

/// Throws what is wrong.
void run_one_pass(Rank& rank);

}  // namespace meshrt::test
