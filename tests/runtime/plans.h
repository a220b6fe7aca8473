// plans.h: calls that are planned once and made several times.
#pragma once
#include "meshrt/rank.h"

namespace meshrt::test {

/// Throws what is wrong.
void run_plans(Rank& rank);

}  // namespace meshrt::test
