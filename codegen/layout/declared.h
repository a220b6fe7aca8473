// declared.h: what the rules say of every value of a graph: dims that are bound to axes, bound to be whole, or open.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/layout/placement.h"
#include "codegen/layout/rules.h"

namespace mesh {

/// For each dim of a value: how it must be split (perhaps not at all), or nothing where propagation and cost may
/// choose.
using DeclaredAxes = SharedList<std::optional<DimPlacement>>;

class Declared {
 public:
  Declared(const Graph&, const Layout&);

  /// A second claim of an axis within one value, which only values that the compiler made can have, is left open.
  DeclaredAxes of(ValueId) const;
  /// Whether rules bind a value only for want of something better: one that the spec has no name for.
  bool may_lie_otherwise(ValueId) const;
  /// Of a stored tensor, which is closed: dims without a rule are whole.
  Placement of(const Stored&) const;
  /// Of an output, which is closed too.
  Placement of(const Output&) const;
  /// The path of the parameter whose final gradient this is, or null.
  const std::string* parameter_of_gradient(ValueId) const;
  /// What a value is to the rules, and how they name it.
  struct Kind {
    ValueKind kind;
    ValuePaths paths;
  };
  Kind kind_of(ValueId) const;
  /// The rule that binds `dim` of a value, for explanations; null if none.
  const Rule* rule(ValueId, DimId dim) const;

 private:
  void find_gradients_of_turns(BodyId);
  bool is_of_stages(ValueId) const;
  void leave_to_stages(std::optional<DimPlacement>&) const;
  ValuePaths paths_of_stored(const std::string& path) const;

  const Graph& graph_;
  const Layout& layout_;
  std::map<ValueId, std::string> gradients_;  // final gradients, and a turn's part of them: the parameter's path
  const std::map<std::string, std::vector<std::string>> others_;  // names of what is stored
};

}  // namespace mesh
