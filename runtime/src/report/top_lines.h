// top_lines.h: the lines of the spec on which a run spent most of its time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "meshrt/profile.h"

namespace meshrt {

struct TopLine {
  std::string place;  ///< "gpt.mesh:24"
  std::string text;   ///< "score = dot[head_dim](q, k)"
  LineCost per_step;  ///< seconds of a step; `seconds` and `collectives` without `waiting`
  double share;       ///< of what all lines cost
};

/// At most ten, the costliest first, by what they cost without waiting for other ranks; forward, backward and update of
/// a line together.
std::vector<TopLine> top_lines(const LineCosts& costs, int64_t steps);

/// A head and a line for each; nothing where there are none.
std::vector<std::string> top_lines_text(const std::vector<TopLine>& lines);

/// The name or names that a statement of the spec gives: "q, k = ..." -> "q, k"; else the whole of it.
std::string value_named_by(const std::string& statement);

}  // namespace meshrt
