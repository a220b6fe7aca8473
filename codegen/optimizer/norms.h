// norms.h: the norm of one value, and of all gradients together: the root of the sum of the squares of their elements.
#pragma once
#include <map>

#include "codegen/graph/builder.h"

namespace mesh {

/// What the norm of all gradients is called.
inline constexpr const char* norm_name = "grad_norm";

/// The gradients of the parameters that are trained, as the graph names them: "grad(PATH)".
std::map<StoredId, ValueId> gradients_of(const Graph&);

/// Gradients are inputs from now on, called as they are: what is left is what the optimizer makes of them.
void read_gradients(Graph&);

/// The sum of the squares of all elements of `value`, which is of the stored tensor or its gradient. Of what each
/// replica has (gradient/replicas.h) a sum for each.
ValueId sum_of_squares(GraphBuilder&, ValueId, StoredId);

/// The norm of all these gradients together, called "grad_norm" from now on; nothing where there are none.
ValueId gradient_norm(GraphBuilder&, const std::map<StoredId, ValueId>& gradients);

/// The mean over replicas of a number that each has; any other number itself.
ValueId over_replicas(GraphBuilder&, ValueId);

}  // namespace mesh
