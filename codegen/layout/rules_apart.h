// rules_apart.h: rules under which two dims of one value lie on one axis, and what might stand in their place.
#pragma once
#include <string>
#include <vector>

#include "codegen/layout/mesh.h"

namespace mesh {

/// A rule as it might be written, in place of the one at `span`: with all dims that this lists.
struct RewrittenRule {
  Span span;
  std::string text;
};

/// For a value of these dims, which both rules concern, the likeliest first. Of two rules that are written apart each
/// may stand back where the other one splits; of one that lists both dims either may be left out, or stand back, or
/// they are cut as one where they lie side by side.
std::vector<RewrittenRule> rules_apart(const Graph&, const std::vector<DimId>& dims, const Rule& first,
                                       const Rule& second);

}  // namespace mesh
