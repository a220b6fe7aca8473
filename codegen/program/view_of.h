// view_of.h: the memory of a buffer under other dims.
#pragma once
#include <vector>

#include "codegen/program/buffer_names.h"
#include "codegen/program/program.h"

namespace mesh {

/// The buffer that has the same elements in the same order as that of `access`, under the dims of its turns and then
/// `dims`: the one there is, or a new view.
BufferId view_of(Program&, BufferNames&, const Access&, const std::vector<LocalDim>& dims);

}  // namespace mesh
