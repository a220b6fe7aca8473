// circle.h: ranks that share memory and wait for each other in a circle, each in a call that the next one has not
// begun: one of them has left a call out, or they make their calls in another order. Each only waits until its time is
// up.
//
// A rank tells what it waits for in RankArea, and each call that it begins in GroupLines; what it waited for before
// needs not be taken back, for that has been begun since.
#pragma once
#include <string>
#include <vector>

#include "transport/shared.h"

namespace meshrt {

/// `rank`, whose thread does nothing else, waits for `other` to begin a call of the group.
void tell_awaited(const SharedMemory&, int rank, int other, uint64_t group, uint32_t sequence);

/// The ranks of a circle that begins with `rank`, each of which waits for the next; none: it is in no circle.
std::vector<int> circle_of(const SharedMemory&, int rank);

/// What each of them waits for.
std::string circle_message(const SharedMemory&, const std::vector<int>& circle);

}  // namespace meshrt
