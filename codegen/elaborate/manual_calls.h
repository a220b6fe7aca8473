// manual_calls.h: what a manual region calls to meet the other ranks of an axis: `all_reduce(x, over: model)` and its
// kin.
#pragma once
#include <string_view>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// Every name of them, sorted.
const std::vector<std::string_view>& calls_across_ranks();
bool is_across_ranks(std::string_view name);

/// E0310 for wrong arguments, E0351 for brackets that ranks cannot share, E0356 outside of a region over the axis.
Term across_ranks(Elaboration&, Frame&, const ast::Call&, Span);

}  // namespace mesh::elaboration
