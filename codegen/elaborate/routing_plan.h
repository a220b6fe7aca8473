// routing_plan.h: what `route` gives: which tokens go to which experts, for `dispatch` and `combine`.
#pragma once
#include <optional>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// Tokens choose experts, or experts tokens. Its tensors have the dims of tokens as the spec has them; what is made of
/// them, groups of tokens as `part` and the dim of the tokens of a group.
struct RoutingPlan {
  ValueId chosen;  // tokens choose: index(expert)[tokens.., choices..]; of experts that choose unset
  ValueId weight;  // what a token's choice counts, chosen's dims; of experts that choose [tokens.., expert]
  DimId expert, slot;
  DimId part;         // unset: all tokens are one group
  bool once = false;  // a token goes to the first of its choices that has room
  bool largest_first = false;
  Span span;
  /// Known once tokens are dispatched: the dims that chosen has in common with them. Of experts that choose, at once.
  std::vector<DimId> tokens = {};

  bool experts_choose() const { return !chosen; }
  /// The dims of chosen that count the choices of one token.
  std::vector<DimId> choices(const Elaboration&) const;
};

}  // namespace mesh::elaboration
