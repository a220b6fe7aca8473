// same_values.h: which values of one graph another computes too, whatever the layout of each: an evaluation finds in
// the training step the sums that its metrics need.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Numbers values: equal numbers mean the same op of values with equal numbers. What only moves a value (a reshard)
/// does not change its number. Graphs that share their stored tensors' paths and names of dims may be numbered
/// together.
class SameValues {
 public:
  /// By value; -1 for values that no node makes.
  std::vector<int> number(const Graph&);

 private:
  class Walk;
  int intern(const std::string& key) { return numbers_.emplace(key, static_cast<int>(numbers_.size())).first->second; }
  std::map<std::string, int> numbers_;
};

}  // namespace mesh
