// entry.h: what a program does when it is called, before it is lowered: a training step, an evaluation, what a state
// begins as, or what a caller of the compiler asks for. All entries of a program are of one model under one layout:
// they have the same dims and share parameters and state.
#pragma once
#include <string>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

struct Entry {
  std::string name;      // "train", "evaluate", "begin.wave"
  std::string meaning;   // for readers of the emitted program: "one optimizer step"
  ShardedGraph sharded;  // metrics: the numbers that a call gives; no composite ops any more (rewrites/decompose.h)
  /// The numbers are over all calls between a reset and a finish: what they sum up is carried from call to call
  /// (evaluation_cut.h), and the sample dim is that of all these batches.
  bool over_batches = false;
  int64_t after_steps = 0;  // not 0: a training step whose number is a multiple of it is followed by a call
  StoredId begins = {};     // the state of which it computes the first value; of several the first
};

}  // namespace mesh
