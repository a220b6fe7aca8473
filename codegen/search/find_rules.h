// find_rules.h: the rules with the least predicted time of a step, among those under which a rank has room.
#pragma once
#include "codegen/search/choices.h"
#include "codegen/search/trials.h"

namespace mesh {

struct FoundSet {
  FoundRules rules;
  Outcome outcome;
  bool fits;    // the memory that was given
  bool proved;  // every set of rules was tried
};

/// Small spaces are gone through. In others beams of estimates lead to what is compiled, and from the best of that on
/// every change of one rule is tried, until none helps or `work` (Trials::work) is done. Nothing where no rules can be.
std::optional<FoundSet> find_rules(Trials&, const Choices&, std::optional<int64_t> memory, int64_t work);

/// Without the rules, and the words of rules, that do not change a placement, or make the step no faster; where nothing
/// is proved, not by a hundredth, unless a rank has more room with them.
FoundSet smallest(Trials&, std::optional<int64_t> memory, FoundSet);

}  // namespace mesh
