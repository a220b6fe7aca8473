// finite.h: where the first NaN or infinity comes from. Programs that meshc writes with --find-nonfinite look at every
// value as it is made.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "meshrt/collectives.h"
#include "meshrt/rank.h"

namespace meshrt {

/// A loop under way, and its turn.
struct Turn {
  const char* loop;
  int64_t index;
};

/// What a rank does about values that are not finite: set by who runs it, for this thread.
struct FiniteChecks {
  bool stop = true;   ///< throw; else the first is told in `found`
  int64_t step = 0;   ///< that is running
  std::string found;  ///< of the run
};
/// Null: nothing is looked at.
FiniteChecks*& finite_checks();

/// Looks at `count` numbers of a value that was just made. -inf is what a mask leaves and counts as finite. Throws
/// Failure (Cause::numeric) that names the value, its line, the turns of the loops around it and the rank.
template <class T>
void check_finite(const Rank& rank, Site site, const T* data, int64_t count, std::initializer_list<Turn> turns = {});

}  // namespace meshrt
