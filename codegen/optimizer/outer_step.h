// outer_step.h: what brings replicas together that have trained apart (gradient/replicas.h): entries of the program
// beside the training step, made of the same stored tensors.
//
// The gradient of the outer step is the mean over the replicas of (what they had in common - what each has now); SGD
// takes a step with it, and every replica goes on from there, with the moments that it has. (DiLoCo: Douillard et al.,
// arXiv 2311.08105. A rate of 1 without momentum is local SGD: the mean of the replicas.)
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// The step of the optimizer over replicas: torch.optim's SGD.
struct OuterStep {
  double rate = 1, momentum = 0;
  bool nesterov = false;
};

/// Adds the outer optimizer's tensors to the graph of a training step, `PATH.outer_momentum`, which that leaves alone.
void store_outer_momentum(Graph&, const OuterStep&);

/// What is due after every `sync` training steps. `step` is the training step's graph.
Graph outer_step(const Graph& step, const OuterStep&);

/// Each replica begins with what the replicas have in common.
Graph begin_replicas(const Graph& step);
/// The first of the tensors to which that gives a value.
StoredId first_of_replicas(const Graph& step);

}  // namespace mesh
