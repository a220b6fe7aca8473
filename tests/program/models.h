// models.h: small models built node by node, for tests of programs.
#pragma once
#include "codegen/program/entry.h"

namespace mesh::tests {

/// Two layers with biases, relu, cross-entropy and accuracy, trained with AdamW. Sizes are uneven over 4.
Graph perceptron();
/// A repeat over layers of norm, product, gelu, product and residual, with clipping.
Graph residual();

/// A mesh of these axes and the rules `dim -> axis`.
Layout layout(const Graph&, const std::vector<std::pair<std::string, int64_t>>& axes,
              const std::vector<std::pair<std::string, std::string>>& rules);
/// The graph of an evaluation of a batch.
Graph evaluation(const Graph& model);
/// The training step and the evaluation of a model under a layout.
std::vector<Entry> placed(const Graph& model, const Layout&);

}  // namespace mesh::tests
