// watch.h: `log.watch` of a run file: norms that a training step gives beside its metrics.
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

/// Appends to Graph::metrics a norm for everything that the entries name: `grad_norm`, all gradients together and
/// before clipping; the path or pattern of parameters, as the step reads them; `grad(PATH)`, their gradients. The graph
/// is one with gradients, complete over micro-batches. Throws Unwatchable.
void append_watched(Graph&, const std::vector<std::string>& entries);

}  // namespace mesh
