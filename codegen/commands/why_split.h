// why_split.h: where the axes of a value come from: from value to value, up to a rule or to what cost decided.
#pragma once
#include <string>
#include <vector>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// A step on the way.
struct SplitCause {
  std::string text;  // "`dot[embed]` takes it from `layer.attn.wq`"
  Span span;         // the expression, or the rule
};

/// Why a dim of a value is split as it is; nothing where it is whole.
std::vector<SplitCause> why_split(const ShardedGraph&, ValueId, DimId);

/// What is to be told of how a value lies.
struct WhySo {
  std::string what;                // "`batch` over `data`", "a partial sum over `model`, ..."
  std::vector<SplitCause> causes;  // of a partial sum none
};

/// Of each dim that is split, then of each partial sum; nothing where every rank holds all of it.
std::vector<WhySo> why_it_lies_so(const ShardedGraph&, ValueId);

}  // namespace mesh
