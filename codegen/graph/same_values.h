// same_values.h: which values of one graph another computes too, whatever the layout of each: an evaluation finds in
// the training step the sums that its metrics need, a prediction what it computes of samples in a larger batch.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Numbers values: equal numbers mean the same op of values with equal numbers. What only moves a value (a reshard)
/// does not change its number. A stored tensor is that of the same path in another graph, a dim that of the same name
/// and size, or of the same name alone where it is one of `any_size`.
class SameValues {
 public:
  /// By value; -1 for values that no node makes.
  std::vector<int> number(const Graph&, const std::vector<DimId>& any_size = {});

 private:
  class Walk;
  /// What a number stands for: what an op gives, or what a loop does with a value. Its ids are those that all graphs
  /// have in common.
  enum class Role : uint8_t { result, carry, slice, turn, loop, leaves, collected };
  struct Key {
    Role role;
    int which = 0;        // of several results: which; of a loop: whether it goes back; in a loop: its depth
    std::vector<int> of;  // numbers
    Op op = LiteralOp{};
    ValueType type = {};
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    size_t operator()(const Key&) const;
  };

  int intern(Key key) { return numbers_.emplace(std::move(key), static_cast<int>(numbers_.size())).first->second; }
  DimId common_dim(const std::string& name, int64_t size, int occurrence);
  StoredId common_stored(const std::string& path);

  std::unordered_map<Key, int, HashOfKey> numbers_;
  std::map<std::tuple<std::string, int64_t, int>, DimId> dims_;
  std::map<std::string, StoredId> stored_;
};

}  // namespace mesh
