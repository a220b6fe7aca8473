// remedies.h: what would remove each collective of a plan: a rule of the layout, found by trying.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/commands/session.h"
#include "codegen/program/exposed.h"

namespace mesh {

struct Remedy {
  bool sought = false;           // else the collective takes too little time to look for one
  std::string rule = "";         // "params { embed -> none }"; empty: none of those that were tried helps
  std::string in_place_of = "";  // what the layout says now; empty: the rule is added
  int64_t still = 0;             // bytes that it sends in a step under the rule; 0: the rule removes it
  StepCost cost = {};            // of a step under the rule
};

/// By collective of the prediction: of the rules under which it is not needed the one with the fastest step; where
/// there is none, of those under which it sends less. Only the dearest and the largest are looked at, with a limited
/// number of rules; none of a layout that a search has found.
std::vector<Remedy> remedies_of(const Session&, const Compiled&, const Prediction&);

}  // namespace mesh
