// narrow.h: the products of a graph in bf16, all else in f32. Each value that a product reads is cast once, before the
// first product that reads it, and all share that: so it is the narrow value that is kept for the backward pass, and
// that moves between ranks. A product of bf16 adds up in f32 and gives f32 (graph/ops/dot.cpp, with its gradient).
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Products around a softmax, of which it is made or which it weighs, keep f32: attention is one op in f32, and a
/// layout under which it is not changes no number.
void narrow_products(Graph&);

}  // namespace mesh
