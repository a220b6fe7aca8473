// prompt.h: the entries that fill the caches of `generate` before its first position.
#pragma once
#include <optional>

#include "codegen/generation/one_position.h"

namespace mesh {

/// `generate.prompt` (meshrt/generation.h): the model at all its positions. Nothing where a cache cannot be filled so;
/// prompts are read position by position then.
std::optional<Graph> at_all_positions(const Graph& model, const OnePosition&);

/// `generate.begin`: what the model makes of other inputs than its sequence. Nothing where it has none.
std::optional<Graph> at_the_beginning(const Graph& model, const OnePosition&);

}  // namespace mesh
