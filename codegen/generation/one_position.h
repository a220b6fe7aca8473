// one_position.h: the entry `generate`: a model at one position of its sequence. What a position has been is kept in
// caches: whatever an op needs of all positions (renamed keys and values, what a running sum adds up), and what loops
// along the sequence carry. An op that works along the sequence is computed of all that is kept; everything else of
// this position alone. What is made of other inputs, an encoder's, is the same at all positions: it is in caches too.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// A cache, and which value of the model it holds.
struct Kept {
  enum class What : uint8_t {
    positions,  // the value, at all positions up to this one
    leaving,    // what a turn of a loop along the sequence leaves: this position's
    given       // the value, which is made of other inputs alone
  };
  std::string path;
  ValueType type;  // of a turn of the loops around it, as the cache has it
  What what;
  ValueId of;
  NodeId loop = {};  // that it leaves
  Span span = {};
  struct Ring {
    DimId of, slots;
  };
  std::optional<Ring> ring = {};  // of positions along `of`, the last ones (rings.h)
};

struct OnePosition {
  Graph graph;  // its one output are the logits, without the dim of the sequence
  std::vector<Kept> kept;
  DimId sequences;  // of sequences that each stand at a position of their own; unset: all stand at one
};

/// Of a model that is causal (causal.h) and computes its logits alone. E0901 for an op that cannot be taken position by
/// position yet.
std::optional<OnePosition> at_one_position(const Graph&, DiagnosticSink&);

}  // namespace mesh
