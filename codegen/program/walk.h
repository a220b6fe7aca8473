// walk.h: the one way through the steps of a program, those in bodies of loops and branches included. A kind of step
// that has bodies lists them (HasBodies in program.h), and whoever walks reaches them.
#pragma once
#include <functional>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// The bodies of a step in order; none of one that does its work itself.
std::vector<Steps*> bodies(Step&);
std::vector<const Steps*> bodies(const Step&);
bool has_bodies(const Step&);

/// Calls `visit` on each step in order, then, for each of its bodies, `enter(step, body)`, the same for the steps of
/// the body, and `leave(step, body)`. Steps that are const are visited as such.
template <class List, class Visit, class Enter, class Leave>
void walk(List& steps, const Visit& visit, const Enter& enter, const Leave& leave) {
  for (auto& step : steps) {
    visit(step);
    for (auto* body : bodies(step)) {
      enter(step, *body);
      walk(*body, visit, enter, leave);
      leave(step, *body);
    }
  }
}

/// Each step in order, a loop before the steps of its body.
template <class List, class Visit>
void for_each_step(List& steps, const Visit& visit) {
  const auto ignore = [](const Step&, const Steps&) {};
  walk(steps, visit, ignore, ignore);
}

/// Each list of steps that are executed one after the other, inner ones before those in which they stand: what a pass
/// rewrites at once.
void for_each_list(Steps&, const std::function<void(Steps&)>&);
/// Of all routines.
void for_each_list(Program&, const std::function<void(Steps&)>&);

/// The dim that each loop goes over, by LoopId; of a loop over the stages of a pipeline these.
std::vector<DimId> dims_of_loops(const Program&);

/// The part that the first of the steps belongs to which it executes.
Part part_of(const Step&);

}  // namespace mesh
