// fuse_nests.cpp: which nests of a body to merge, and where the merged one stands.
#include <algorithm>

#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/steps_so_far.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

class Fuser {
 public:
  Fuser(Program& program, bool across) : program_(program), across_(across), shared_(program.buffers.size()) {
    std::vector<const Routine*> writer(program.buffers.size());
    for (const Routine& routine : program.routines)
      for (const Step& step : routine.steps) {
        const StepSets sets = sets_of(program, step);
        for (const uint32_t read : sets.reads)
          if (writer[read] && writer[read] != &routine) shared_[read] = true;
        for (const uint32_t written : sets.writes) writer[written] = &routine;
      }
    for (const BufferId id : program.kept) shared_[storage(program, id).index] = true;
  }

  void run(Steps& steps) {
    for (size_t before = 0; before != steps.size();) {  // a merged nest may merge with an earlier one again
      before = steps.size();
      sink_nests(program_, steps, shared_);
      merge_all(steps);
    }
  }

 private:
  void merge_all(Steps& steps) {
    StepsSoFar out(program_);
    for (Step& step : steps) {
      const bool is_nest = std::holds_alternative<Nest>(step.what);
      if (is_nest && merge_up(out, step)) continue;
      out.append(std::move(step));
      if (is_nest) merge_down(out);
    }
    steps = out.take_all();
  }

  /// Merges the nest into an earlier one with which it shares data, over steps that it may pass.
  bool merge_up(StepsSoFar& out, const Step& step) const {
    const Nest& nest = std::get<Nest>(step.what);
    const StepSets own = sets_of(program_, step);
    const size_t begin = std::max(first_to_pass(out), out.last_in_the_way(own).value_or(0));
    for (const size_t i : is_number(nest) ? out.numbers(begin) : out.sharing(own, begin))
      if (std::optional<Nest> both = merged(program_, out.nest(i), nest)) {
        out.change(i, [&](Step& into) {
          into.what = std::move(*both);
          swallow(into, step);
        });
        return true;
      }
    return false;
  }

  /// Merges an earlier nest that may come as late as the last one into it.
  void merge_down(StepsSoFar& out) const {
    const size_t last = out.last(), begin = first_to_pass(out);
    const bool number = is_number(out.nest(last));
    for (const size_t i : number ? out.free_numbers(begin) : out.free_sharing(out.sets(last), begin)) {
      if (i == last) continue;
      if (out.is_held_up(i)) {
        out.hold_up(i);
        continue;
      }
      if (stays_in_forward(out.step(i), out.sets(i), shared_) && out.is_above_other_parts(i)) continue;
      std::optional<Nest> both = merged(program_, out.nest(i), out.nest(last));
      if (!both) continue;
      Step step = out.take(i);
      step.what = std::move(*both);
      out.change(last, [&](Step& into) {
        swallow(step, into);
        into = std::move(step);
      });
      return;
    }
  }

  /// Nests move over calls only if `across_`.
  size_t first_to_pass(const StepsSoFar& out) const { return across_ || !out.last_call() ? 0 : *out.last_call() + 1; }

  Program& program_;
  bool across_;               // over products, collectives and loops
  std::vector<bool> shared_;  // by buffer: read by another routine than the one that writes it, or to be
};

}  // namespace

void fuse_nests(Program& program, bool across) {
  Fuser fuser(program, across);
  for_each_list(program, [&](Steps& steps) { fuser.run(steps); });
}

}  // namespace mesh
