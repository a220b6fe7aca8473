#include "codegen/program/lifetimes.h"

#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

/// One body of a routine: the root or a loop's.
struct Block {
  int parent = -1;           // block
  int first = 0, last = -1;  // steps, those of inner loops included
  LoopId loop;
};

struct Event {
  int step, block;
  Use use;
  std::vector<LoopId> turns;
};

class Walk {
 public:
  Walk(const Program& program, int routine, std::vector<Lifetime>& result)
      : program_(program), routine_(routine), result_(result), events_(program.buffers.size()) {
    walk(program.routines[static_cast<size_t>(routine)].steps, -1, {});
    for (size_t i = 0; i < events_.size(); ++i)
      if (!events_[i].empty()) place(i);
  }
  int last_step() const { return next_ - 1; }

 private:
  void walk(const std::vector<Step>& steps, int parent, LoopId loop) {
    const int block = static_cast<int>(blocks_.size());
    blocks_.push_back({parent, next_, -1, loop});
    for (const Step& step : steps) {
      if (const auto* inner = std::get_if<std::unique_ptr<ForStep>>(&step.what)) {
        walk((*inner)->body, block, (*inner)->loop);
        continue;
      }
      for_each_access(step, [&](const Access& access, Use use) {
        events_[storage(program_, access.buffer).index].push_back({next_, block, use, access.turns});
      });
      ++next_;
    }
    blocks_[static_cast<size_t>(block)].last = next_ - 1;
  }

  int depth(int block) const {
    int result = 0;
    for (; block >= 0; block = blocks_[static_cast<size_t>(block)].parent) ++result;
    return result;
  }
  int parent(int block) const { return blocks_[static_cast<size_t>(block)].parent; }
  int common(int a, int b) const {
    while (a != b) (depth(a) > depth(b) ? a : b) = parent(depth(a) > depth(b) ? a : b);
    return a;
  }

  /// The stretch within the innermost block that has all uses. What a turn leaves for the next, or keeps in slots by
  /// turn, lives as long as the whole loop.
  void place(size_t buffer) {
    const std::vector<Event>& events = events_[buffer];
    int block = events[0].block;
    for (const Event& event : events) block = common(block, event.block);
    const auto survives = [&](int inner) {
      const Block& of = blocks_[static_cast<size_t>(inner)];
      if (!of.loop) return false;
      return events[0].use != Use::write || std::any_of(events.begin(), events.end(), [&](const Event& event) {
               return std::find(event.turns.begin(), event.turns.end(), of.loop) != event.turns.end();
             });
    };
    Lifetime life{routine_, events.front().step, events.back().step, block};
    const auto cover = [&](int inner) {
      life.first = std::min(life.first, blocks_[static_cast<size_t>(inner)].first);
      life.last = std::max(life.last, blocks_[static_cast<size_t>(inner)].last);
    };
    for (const Event& event : events)  // an inner loop that uses it does so in every turn
      for (int inner = event.block; inner != block; inner = parent(inner)) cover(inner);
    while (survives(block)) {
      cover(block);
      block = parent(block);
    }
    life.block = block;
    if (result_[buffer].routine >= 0) life.routine = -1;  // another routine uses it too
    result_[buffer] = life;
  }

  const Program& program_;
  int routine_;
  std::vector<Lifetime>& result_;
  std::vector<std::vector<Event>> events_;
  std::vector<Block> blocks_;
  int next_ = 0;
};

}  // namespace

std::vector<Lifetime> lifetimes(const Program& program) {
  std::vector<Lifetime> result(program.buffers.size());
  const std::vector<bool> outlives = outlive_routine(program);
  for (size_t r = 0; r < program.routines.size(); ++r) {
    const Walk walk(program, static_cast<int>(r), result);
    for (size_t i = 0; i < result.size(); ++i)  // results are read when the routine has ended
      if (outlives[i] && result[i].routine == static_cast<int>(r)) result[i].last = walk.last_step() + 1;
  }
  for (size_t i = 0; i < result.size(); ++i)
    if (program.buffers[i].stored) result[i].routine = -1;
  for (const EntryPoint& entry : program.entries)
    for (const Accumulator& one : entry.carried) result[one.buffer.index].routine = -1;
  for (size_t i = 0; i < result.size(); ++i)
    if (program.buffers[i].view_of) result[i].routine = -2;
  return result;
}

}  // namespace mesh
