// numbers.h: running programs on fixed numbers, and comparing what came out.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/interpret/interpret.h"

namespace mesh::tests {

/// Three training steps from fixed inputs and parameters, the same for every layout.
InterpretResult run(const Program&);

/// The metrics of an evaluation over `batches` equal batches of the same inputs and parameters.
std::vector<double> evaluate(const Program&, int batches);

/// The whole outputs of an entry, called between the first two of three training steps from the same numbers, and the
/// metrics of these steps.
struct Called {
  std::map<std::string, meshrt::Array> outputs;
  std::vector<std::vector<double>> metrics;
};
Called call(const Program&, const std::string& entry);

/// Equal metrics, parameters and state, to rounding; copies of one element equal to the bit.
void expect_equal(const InterpretResult& expected, const InterpretResult& found, const std::string& what);

}  // namespace mesh::tests
