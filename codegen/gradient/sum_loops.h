// sum_loops.h: which loop over micro-batches computes what. A sum over samples that values of samples need is complete
// only when all of them have been through, so it is computed in a loop of its own before the main one. Where there is
// one micro-batch, it has them all.
#pragma once
#include <map>
#include <set>

#include "codegen/gradient/sample_sums.h"
#include "codegen/graph/graph.h"

namespace mesh {

class SumLoops {
 public:
  SumLoops(const Graph&, const SampleSums&);

  /// Loops are numbered in the order in which they run. The main one is the last; those before it compute early sums.
  int main_loop() const { return main_; }
  /// Of a root node that runs once for each part of the samples, the first loop that can run it. Of another one, the
  /// loop before which it runs: what it reads is complete then, not before; main_loop() + 1 stands for after all.
  int loop_of(NodeId node) const { return loops_.at(node); }
  /// Sums that values of samples need, directly or through other values.
  const std::set<ValueId>& early() const { return early_; }

 private:
  void find_early();
  void number_nodes();
  int known_before(NodeId) const;

  const Graph& graph_;
  const SampleSums& sums_;
  int main_ = 0;
  std::map<NodeId, int> loops_;
  std::map<ValueId, int> known_;  // the first loop in which a value may be read
  std::set<ValueId> early_;
};

}  // namespace mesh
