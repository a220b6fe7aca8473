// largest_values.h: what takes a rank's memory: the buffers that hold most, as messages tell them.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// Of the largest rank.
int64_t bytes_of(const Buffer&);

/// Buffers with memory of their own, the largest first.
std::vector<const Buffer*> largest_buffers(const Program&);

/// "`layer.attn.score`"
std::string name_text(const Buffer&);

/// "[batch, seq/data], of which a rank holds 128 x 64"
std::string parts_text(const Program&, const Buffer&);

}  // namespace mesh
