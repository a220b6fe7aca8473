// channels.h: channels with slots, in both directions at once, in any order that they allow.
#pragma once
#include "meshrt/rank.h"

namespace meshrt::test {

/// Throws what is wrong.
void run_channels(Rank& rank);

}  // namespace meshrt::test
