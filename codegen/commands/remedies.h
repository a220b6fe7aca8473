// remedies.h: what would remove each collective of a plan: a rule of the layout, found by trying.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/commands/session.h"
#include "codegen/program/exposed.h"

namespace mesh {

struct Remedy {
  bool sought = false;    // else the collective takes too little time to look for one
  std::string rule;       // "params { embed -> none }"; empty: none of those that were tried removes it
  bool replaces = false;  // a rule that is there
  StepCost cost = {};     // of a step under that rule
};

/// By collective of the prediction: of the rules under which it is not needed the one with the fastest step. Only the
/// dearest are looked at, with a limited number of rules; none of a layout that a search has found.
std::vector<Remedy> remedies_of(const Session&, const Compiled&, const Prediction&);

}  // namespace mesh
