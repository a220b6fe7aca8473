// numbers.h: running programs on fixed numbers, and comparing what came out.
#pragma once
#include <string>

#include "codegen/interpret/interpret.h"

namespace mesh::tests {

/// Three training steps from fixed inputs and parameters, the same for every layout.
InterpretResult run(const Program&);

/// The metrics of an evaluation over `batches` equal batches of the same inputs and parameters.
std::vector<double> evaluate(const Program&, int batches);

/// Equal metrics, parameters and state, to rounding; copies of one element equal to the bit.
void expect_equal(const InterpretResult& expected, const InterpretResult& found, const std::string& what);

}  // namespace mesh::tests
