// groups.h: groups of some coordinates, many groups, and channels between two ranks.
#pragma once
#include <string>
#include <vector>

#include "meshrt/rank.h"

namespace meshrt::test {

/// Throws what is wrong.
void run_groups(Rank& rank);

}  // namespace meshrt::test
