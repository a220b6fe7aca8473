// decisions.h: what is decided of a graph's placements beyond its rules, before its values are placed one by one.
#pragma once
#include <map>
#include <tuple>

#include "codegen/layout/placement.h"

namespace mesh {

struct Decisions {
  /// Where values lie in the dims that no rule binds; of a loop's carry: `entering`.
  std::map<ValueId, Placement> lies;
  /// Ops that do not weigh each for itself what they move: such an op moves this operand alone, which others need as
  /// well; none (`nothing`) where its operands stay and a sum of several such results is completed once.
  std::map<NodeId, int> moves_only;
  static constexpr int nothing = -1;
  /// Rules are only preferences for what has no name within an expression.
  bool frees_inner = false;
  /// The same for what is read beside its elements.
  bool frees_neighbours = false;
  /// A copy that is there already costs an op that needs it nothing.
  bool counts_copies = true;
  /// What was moved as its rule wants it is kept for later parts also as it was made.
  bool keeps_made = false;
  /// An op that would have operands moved may split any of its dims instead.
  bool splits_any = false;
  /// What is joined, padded, cut out or merged may be dealt as it stands in a longer dim that is split.
  bool stretches = false;
  auto freedoms() const {
    return std::tie(frees_inner, frees_neighbours, counts_copies, keeps_made, splits_any, stretches);
  }
  auto operator<=>(const Decisions&) const = default;
};

}  // namespace mesh
