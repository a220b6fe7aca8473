// shared_turns.h: which loop nests the threads of a rank share, by turns of the outermost loop.
#pragma once
#include <optional>
#include <span>

#include "codegen/program/program.h"

namespace mesh {

/// How many turns of the nest's loop over `outermost` (one dim, or several that are walked through as one) are enough
/// for a thread. Nothing where turns depend on each other, so that they must follow one another, or where the nest has
/// no work for two.
std::optional<int64_t> turns_for_a_thread(const Program&, const Nest&, std::span<const LocalDim> outermost);

}  // namespace mesh
