// narrow.h: the products of a graph in a type of 16 bits, all else in f32. Each value that a product reads is cast
// once, before the first product that reads it, and all share that: so it is the narrow value that is kept for the
// backward pass, and that moves between ranks. Such a product adds up in f32 and gives f32 (graph/ops/dot.cpp, with its
// gradient). Attention is two of them: as one op it reads queries, keys and values so, where a layout keeps it apart
// each of its products does.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

enum class NarrowedProducts : uint8_t { all, of_no_parameter };

/// `type`: bf16 or f16.
void narrow_products(Graph&, meshrt::Type type, NarrowedProducts = NarrowedProducts::all);

}  // namespace mesh
