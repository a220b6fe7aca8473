// shared_turns.h: which loop nests the threads of a rank share: by turns of the outermost loop, or by blocks of what is
// reduced to one number.
#pragma once
#include <optional>
#include <span>

#include "codegen/program/program.h"

namespace mesh {

struct SharedTurns {
  int64_t enough;     // turns for a thread
  bool adds = false;  // each turn also adds to what the nest accumulates, once to an element (meshrt/ordered_sums.h)
};

/// How threads share the turns of the nest's loop over `outermost` (one dim, or several that are walked through as
/// one). Nothing where turns depend on each other, so that they must follow one another, or where the nest has no work
/// for two.
std::optional<SharedTurns> shared_turns(const Program&, const Nest&, std::span<const LocalDim> outermost);

/// How many columns are enough for a thread, where threads share the turns of an inner loop, over `columns`, of a nest
/// that is one walk: each makes all turns of the loops around it.
std::optional<int64_t> columns_for_a_thread(const Program&, const Nest&, std::span<const LocalDim> columns);

/// Whether threads share what the pass reduces: cut into blocks (meshrt/shared_reduction.h), whose order of additions
/// is another one than that of a loop. True where each reduction gives one number a run of the nest, however large it
/// is, and no element depends on what was stored for another one.
bool reduces_in_blocks(const Program&, const Nest&, const Pass&);

}  // namespace mesh
