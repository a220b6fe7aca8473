// evaluation_cut.h: how the metrics of one batch become metrics over an evaluation set. Reductions over samples
// that a metric reads are carried from batch to batch (sums add up, extremes compete), and what the metric makes of
// them is computed once, at the end. A metric that mixes samples in another way (a log-sum-exp over them, a variance)
// is taken of each batch and averaged.
#pragma once
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/program/lowering.h"

namespace mesh {

struct EvaluationCut {
  struct Carried {
    ValueId value;
    Reduce reduce;
  };
  std::vector<Carried> carried;     // in order of discovery
  std::vector<bool> averaged;       // by metric
  std::vector<bool> batch, finish;  // by node of the root: what runs with every batch, and once at the end
};

EvaluationCut cut_evaluation(const ShardedGraph&, const Lowering&);

}  // namespace mesh
