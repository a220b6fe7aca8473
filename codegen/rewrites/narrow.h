// narrow.h: the products of a graph in bf16, all else in f32. Each value that a product reads is cast once, before the
// first product that reads it, and all share that: so it is the narrow value that is kept for the backward pass, and
// that moves between ranks. A product of bf16 adds up in f32 and gives f32 (graph/ops/dot.cpp, with its gradient).
// Attention is two of them: as one op it reads queries, keys and values in bf16, where a layout keeps it apart each of
// its products does so.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

void narrow_products(Graph&);

}  // namespace mesh
