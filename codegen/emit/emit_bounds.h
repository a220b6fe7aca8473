// emit_bounds.h: how far a step goes along a dim: "const int64_t key_so_far = std::min<int64_t>(*position + 1, key);".
#pragma once
#include <map>
#include <span>
#include <string>

#include "codegen/emit/emit_context.h"

namespace mesh {

/// Declares, where that has not been done, how many elements a step works on of each dim that it bounds; their names.
std::map<DimId, std::string> declare_bounds(EmitContext&, CppWriter&, Scope&, std::span<const LoopBound>);

}  // namespace mesh
