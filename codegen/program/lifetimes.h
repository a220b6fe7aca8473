// lifetimes.h: when each buffer's memory is in use, as a stretch of a routine's steps. The memory plan lays buffers out
// by it, the verifier checks the plan against it.
#pragma once
#include <functional>
#include <vector>

#include "codegen/program/branches.h"
#include "codegen/program/program.h"

namespace mesh {

/// Steps of a routine are numbered in order, those of a loop's body within the loop. A buffer lives from `first` to
/// `last`, both included; what lives only inside a turn of a loop has the numbers of its body. What no rank holds both
/// of, because branches on different coordinates use them, never meets. `routine` is -1 for what
/// several routines share (stored tensors, accumulators, sums that evaluation takes from the training step), -2 for
/// buffers that nobody uses, and views.
struct Lifetime {
  int routine = -2;
  int first = 0, last = 0;
  int block = -1;      // the innermost body, numbered in order of appearance, within one turn of which it lives
  RankSet ranks = {};  // that use it; empty: all do
  bool meets(const Lifetime& other) const {
    if (routine == -2 || other.routine == -2) return false;
    if (!ranks.empty() && !other.ranks.empty() && !intersect(ranks, other.ranks)) return false;
    if (routine == -1 || other.routine == -1) return true;
    return routine == other.routine && first <= other.last && other.first <= last;
  }
};

/// By buffer.
std::vector<Lifetime> lifetimes(const Program&);
std::vector<Lifetime> lifetimes(const Program&, const RankClasses&);

/// Visits the steps without bodies as lifetimes number them, and the body in which each stands.
void for_each_numbered(const Steps&, const std::function<void(const Step&, int step, int block)>& visit);

}  // namespace mesh
