// share_copies.cpp: two readers that need a value in the same other order in memory read one copy of it.
#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

class Sharer {
 public:
  explicit Sharer(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(count_uses(program)) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i < steps.size(); ++i)
        if (copies(steps[i])) share(steps, i);
    });
  }

 private:
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }

  /// Whether the step makes a buffer of its own that nothing else writes.
  bool copies(const Step& step) const {
    const auto* copy = std::get_if<CopyStep>(&step.what);
    return copy && copy->to.turns.empty() && copy->to.maps.empty() && !program_.buffer(copy->to.buffer).view_of &&
           !keep_[copy->to.buffer.index] && uses_.writes[root(copy->to)] == 1;
  }

  /// Later copies of what step i copies, in the same part of the pass: none is kept from forward for backward, or from
  /// gradients of activations for those of weights.
  void share(Steps& steps, size_t i) {
    const CopyStep first = std::get<CopyStep>(steps[i].what);
    for (size_t j = i + 1; j < steps.size(); ++j) {
      if (contains(sets_of(program_, steps[j]).writes, root(first.from))) return;
      if (!copies(steps[j]) || part_of(steps[j]) != part_of(steps[i])) continue;
      const CopyStep second = std::get<CopyStep>(steps[j].what);
      if (second.from != first.from || !is_alike(first.to, second.to) || !is_used_here_alone(steps, second.to))
        continue;
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(j--));
      use_instead(program_, steps, second.to, first.to);
    }
  }

  bool is_alike(const Access& a, const Access& b) const {
    const Buffer &of_a = program_.buffer(a.buffer), &of_b = program_.buffer(b.buffer);
    return of_a.dims == of_b.dims && of_a.type == of_b.type && of_a.kind == of_b.kind;
  }

  /// Whether the steps of this list are all that use the buffer, and never a view or a part of it.
  bool is_used_here_alone(Steps& steps, const Access& whole) const {
    int found = 0;
    bool alone = true;
    for (Step& step : steps)
      for_each_access(step, [&](Access& access, Use) {
        if (root(access) != root(whole)) return;
        ++found;
        alone = alone && access == whole;
      });
    return alone && found == uses_.reads[root(whole)] + uses_.writes[root(whole)];
  }

  Program& program_;
  std::vector<bool> keep_;
  UseCounts uses_;
};

}  // namespace

void share_copies(Program& program) { Sharer(program).run(); }

}  // namespace mesh
