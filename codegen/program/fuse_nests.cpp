// fuse_nests.cpp: which nests of a body to merge, and where the merged one stands.
#include <algorithm>
#include <iterator>

#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

/// Whether both, sorted, have an element in common.
bool share_one(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return !both.empty();
}

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
      merge_all(steps);
    }
  }

 private:
  void merge_all(std::vector<Step>& steps) {
    sink(steps);
    std::vector<Step> out;
    std::vector<StepSets> sets;
    for (Step& step : steps) {
      const StepSets own = sets_of(program_, step);
      if (!std::holds_alternative<Nest>(step.what) || !merge_up(out, sets, step, own)) {
        out.push_back(std::move(step));
        sets.push_back(own);
        if (std::holds_alternative<Nest>(out.back().what)) merge_down(out, sets);
      }
    }
    steps = std::move(out);
  }

  /// Moves each nest down to just before the first step that reads what it gives.
  void sink(std::vector<Step>& steps) {
    std::vector<StepSets> sets;
    sets.reserve(steps.size());
    for (const Step& step : steps) sets.push_back(sets_of(program_, step));
    for (size_t i = steps.size(); i-- > 0;) {
      if (!std::holds_alternative<Nest>(steps[i].what)) continue;
      size_t next = i + 1;
      while (next < steps.size() && !conflict(sets[i], sets[next]) && !stays(steps[i], sets[i], steps[next])) ++next;
      if (next == steps.size() || !share_one(sets[i].writes, sets[next].reads)) continue;
      const auto at = [](auto& items, size_t index) { return items.begin() + static_cast<std::ptrdiff_t>(index); };
      std::rotate(at(steps, i), at(steps, i + 1), at(steps, next));
      std::rotate(at(sets, i), at(sets, i + 1), at(sets, next));
    }
  }

  /// Merges the nest into an earlier one with which it shares data, over steps that it may pass.
  bool merge_up(std::vector<Step>& out, std::vector<StepSets>& sets, const Step& step, const StepSets& own) {
    const Nest& nest = std::get<Nest>(step.what);
    for (size_t i = out.size(); i-- > 0;) {
      if (const auto* earlier = std::get_if<Nest>(&out[i].what); earlier && gains(*earlier, sets[i], nest, own)) {
        if (std::optional<Nest> both = merged(program_, *earlier, nest)) {
          out[i].what = std::move(*both);
          swallow(out[i], step);
          sets[i] = sets_of(program_, out[i]);
          return true;
        }
      }
      if (conflict(sets[i], own) || (!across_ && !std::holds_alternative<Nest>(out[i].what))) return false;
    }
    return false;
  }

  /// Merges an earlier nest that may come as late as the last one into it.
  void merge_down(std::vector<Step>& out, std::vector<StepSets>& sets) {
    const size_t last = out.size() - 1;
    for (size_t i = last; i-- > 0;) {
      const auto* earlier = std::get_if<Nest>(&out[i].what);
      if (!earlier && !across_) return;
      const Nest& nest = std::get<Nest>(out[last].what);
      if (!earlier || !gains(*earlier, sets[i], nest, sets[last])) continue;
      bool free = true;
      for (size_t k = i + 1; k < last; ++k) free = free && !conflict(sets[i], sets[k]);
      for (size_t k = i + 1; k <= last; ++k) free = free && !stays(out[i], sets[i], out[k]);
      if (!free) continue;
      if (std::optional<Nest> both = merged(program_, *earlier, nest)) {
        Step step = std::move(out[i]);
        step.what = std::move(*both);
        swallow(step, out[last]);
        out[last] = std::move(step);
        sets[last] = sets_of(program_, out[last]);
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
        sets.erase(sets.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
    }
  }

  /// Whether the nest may not move below the step: what another routine takes from the forward part is made there.
  bool stays(const Step& nest, const StepSets& sets, const Step& below) const {
    return nest.part == Part::forward && below.part != Part::forward &&
           std::any_of(sets.writes.begin(), sets.writes.end(), [&](uint32_t id) { return shared_[id]; });
  }

  /// Data in common, or single numbers, which cost nothing wherever they are computed.
  bool gains(const Nest& a, const StepSets& of_a, const Nest& b, const StepSets& of_b) const {
    if (is_number(a) != is_number(b)) return false;  // a number more in memory is nothing, and easier to read
    if (is_number(a)) return true;
    return share_one(of_a.writes, of_b.reads) || shares_array(of_a.reads, of_b.reads) ||
           shares_array(of_a.writes, of_b.writes);
  }
  static bool is_number(const Nest& nest) {
    return nest.outer.empty() &&
           std::all_of(nest.passes.begin(), nest.passes.end(), [](const Pass& p) { return p.inner.empty(); });
  }
  bool shares_array(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) const {
    return std::any_of(a.begin(), a.end(),
                       [&](uint32_t i) { return contains(b, i) && !program_.buffers[i].dims.empty(); });
  }

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
