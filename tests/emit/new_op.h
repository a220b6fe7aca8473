// new_op.h: a model with an op and a step that the compiler has never seen; both stand in new_op.cpp alone.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "codegen/layout/sharded_graph.h"
#include "codegen/program/program.h"

namespace mesh::tests {

/// y = x * w, z = neighbour_product[point](y), loss = mean((z - t)^2); w is trained. Sizes of `batch` and `point`:
inline constexpr int64_t batch_size = 6, point_size = 5;
Graph neighbour_model();

/// A way to run it: over two ranks, with these dims split.
struct NewOpCase {
  std::string name;
  std::vector<std::pair<std::string, std::string>> rules;
};
const std::vector<NewOpCase>& new_op_cases();

ShardedGraph neighbours_placed(const NewOpCase&);
/// With the gradient of w wanted.
Program neighbours_lowered(const NewOpCase&);
std::string neighbours_emitted(const NewOpCase&);

}  // namespace mesh::tests
