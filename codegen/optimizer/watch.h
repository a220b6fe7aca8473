// watch.h: `log.watch` of a run file: norms, and the learning rate, that a training step gives beside its metrics.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// An entry of the list that names nothing, or nothing that has a norm.
struct Unwatchable : std::runtime_error {
  Unwatchable(size_t which, const std::string& what, std::string hint)
      : std::runtime_error(what), entry(which), way_out(std::move(hint)) {}
  size_t entry;
  std::string way_out;
};

/// Appends to Graph::metrics a number for everything that the entries name: norms, of all gradients together and before
/// clipping (`grad_norm`), of parameters as the step reads them (their path or pattern), of their gradients
/// (`grad(PATH)`); `learning_rate`, the step's, of parameters in no group with its own; `loss_scale`, the
/// step's, and `skipped_steps`, how many there were before it. The graph is one with gradients,
/// complete over micro-batches. Throws Unwatchable.
void append_watched(Graph&, const std::vector<std::string>& entries);

}  // namespace mesh
