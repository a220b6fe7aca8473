// renew.cpp: caches that an entry renews element by element, as a program does that writes a text: `next = f(old)` in a
// loop, and at its end `old = next`. Where nobody needs `old` any more once an element of `next` is made, `next` is
// made in its place: no second tensor, and no copy.
#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

class Renewal {
 public:
  explicit Renewal(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(count_uses(program)) {}

  void run() {
    for (Routine& routine : program_.routines)
      for (size_t i = 0; i < routine.steps.size(); ++i) {
        auto* nest = std::get_if<Nest>(&routine.steps[i].what);
        if (!nest) continue;
        for (Pass& pass : nest->passes)
          for (size_t s = pass.stores.size(); s-- > 0;) {
            const auto* load =
                std::get_if<Scalar::Load>(&pass.scalars[static_cast<size_t>(pass.stores[s].scalar)].what);
            if (!load || !is_whole_copy(load->access, pass.stores[s].to)) continue;
            const BufferId next = load->access.buffer, old = pass.stores[s].to.buffer;
            if (!can_renew(routine.steps, i, next, old)) continue;
            pass.stores.erase(pass.stores.begin() + static_cast<std::ptrdiff_t>(s));
            put_in_place(routine.steps, next, old);
          }
      }
  }

 private:
  /// Whether a nest that stores the one to the other makes a cache of a value that only this routine has. What else is
  /// stored keeps what it has until the end of a step, which may be stopped in its middle.
  bool is_whole_copy(const Access& from, const Access& to) const {
    const Buffer &next = program_.buffer(from.buffer), &old = program_.buffer(to.buffer);
    return from.is_plain() && to.is_plain() && old.kind == BufferKind::cache && !next.view_of &&
           !keep_[from.buffer.index] && next.type == old.type && next.dims == old.dims;
  }

  /// Whether every use of `next` is in these steps and none after step i, which copies it; and whether `old` is read
  /// only by a pass that makes, once, the element of `next` that stands in the same place.
  bool can_renew(Steps& steps, size_t i, BufferId next, BufferId old) {
    int uses = 0, writes = 0;
    bool possible = true;
    for (size_t k = 0; k < steps.size(); ++k)
      for_each_access(steps[k], [&](Access& access, Use use) {
        const BufferId memory = storage(program_, access.buffer);
        if (memory == next) {
          ++uses;
          writes += use == Use::read ? 0 : 1;
          possible = possible && access.buffer == next && k <= i && use != Use::update;
        } else if (memory == old) {
          possible = possible && access.buffer == old && (use == Use::read || k == i);
        }
      });
    if (!possible || writes != 1 || uses != uses_.reads[next.index] + uses_.writes[next.index]) return false;
    std::vector<LoopId> loops;
    return reads_of(old, steps) == reads_where_made(steps, next, old, loops);
  }

  int reads_of(BufferId old, Steps& steps) const {
    int reads = 0;
    for (Step& step : steps)
      for_each_access(step, [&](Access& access, Use use) { reads += access.buffer == old && use == Use::read; });
    return reads;
  }

  /// How many reads of `old` are in a pass that stores `next` at the same element, in a turn of its own of every loop
  /// around it.
  int reads_where_made(Steps& steps, BufferId next, BufferId old, std::vector<LoopId>& loops) const {
    int reads = 0;
    for (Step& step : steps) {
      if (auto* nest = std::get_if<Nest>(&step.what))
        for (Pass& pass : nest->passes) {
          const auto made =
              std::ranges::find_if(pass.stores, [&](const Pass::Store& s) { return s.to.buffer == next; });
          if (made == pass.stores.end() || !made->to.maps.empty() || !has_own_turns(made->to, loops)) continue;
          const Access here{old, made->to.turns};
          for_each_access(pass, [&](Access& access, Use use) { reads += access == here && use == Use::read; });
        }
      const auto* loop = std::get_if<ForStep>(&step.what);
      if (loop) loops.push_back(loop->loop);
      for (Steps* body : bodies(step)) reads += reads_where_made(*body, next, old, loops);
      if (loop) loops.pop_back();
    }
    return reads;
  }

  static bool has_own_turns(const Access& access, const std::vector<LoopId>& loops) {
    return std::ranges::all_of(loops, [&](LoopId loop) {
      return std::ranges::any_of(access.turns, [&](const TurnIndex& t) { return t.loop == loop && t.period == 0; });
    });
  }

  void put_in_place(Steps& steps, BufferId next, BufferId old) {
    if (program_.buffer(next).space == Space::arena) program_.buffer(old).space = Space::arena;
    for (Step& step : steps)
      for_each_access(step, [&](Access& access, Use) {
        if (access.buffer == next) access.buffer = old;
      });
  }

  Program& program_;
  const std::vector<bool> keep_;
  const UseCounts uses_;
};

}  // namespace

void renew_in_place(Program& program) { Renewal(program).run(); }

}  // namespace mesh
