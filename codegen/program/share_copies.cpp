// share_copies.cpp: two readers that need a value in the same other order in memory read one copy of it.
#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

class Sharer {
 public:
  explicit Sharer(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i < steps.size(); ++i)
        if (!uses_.is_removed(steps[i]) && copies(steps[i])) share(steps, i);
    });
    uses_.sweep();
  }

 private:
  /// Whether the step makes a buffer of its own that nothing else writes.
  bool copies(const Step& step) const {
    const auto* copy = std::get_if<CopyStep>(&step.what);
    return copy && copy->to.is_plain() && !program_.buffer(copy->to.buffer).view_of && !keep_[copy->to.buffer.index] &&
           uses_.writers(copy->to).size() == 1;
  }

  /// Later copies of what step i copies, in the same part of the pass: none is kept from forward for backward, or from
  /// gradients of activations for those of weights.
  void share(Steps& steps, size_t i) {
    const CopyStep first = std::get<CopyStep>(steps[i].what);
    const std::vector<size_t> writers = uses_.writers(steps, first.from);
    const auto changed = std::ranges::upper_bound(writers, i);
    for (const size_t j : uses_.readers(steps, first.from)) {
      if (j <= i || (changed != writers.end() && j >= *changed)) continue;
      if (!copies(steps[j]) || part_of(steps[j]) != part_of(steps[i])) continue;
      const CopyStep second = std::get<CopyStep>(steps[j].what);
      if (second.from != first.from || !is_alike(first.to, second.to) || !uses_.only_here(steps, second.to)) continue;
      uses_.removed(steps[j]);
      uses_.use_instead(second.to, first.to);
    }
  }

  bool is_alike(const Access& a, const Access& b) const {
    const Buffer &of_a = program_.buffer(a.buffer), &of_b = program_.buffer(b.buffer);
    return of_a.dims == of_b.dims && of_a.type == of_b.type && of_a.kind == of_b.kind;
  }

  Program& program_;
  std::vector<bool> keep_;
  MemoryUses uses_;
};

}  // namespace

void share_copies(Program& program) { Sharer(program).run(); }

}  // namespace mesh
