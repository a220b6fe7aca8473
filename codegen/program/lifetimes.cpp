#include "codegen/program/lifetimes.h"

#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

/// One body of a routine: the root, a loop's or a branch's.
struct Block {
  int parent = -1;           // block
  int first = 0, last = -1;  // steps, those of inner bodies included
  LoopId loop;               // unset: it is executed once
};

struct Event {
  int step, block;
  Use use;
  std::vector<FixedDim> fixed;
  RankSet ranks;  // that execute it
};

class Walk {
 public:
  Walk(const Program& program, const RankClasses& classes, int routine, std::vector<Lifetime>& result)
      : program_(program), routine_(routine), result_(result), events_(program.buffers.size()) {
    find_events(program.routines[static_cast<size_t>(routine)].steps, classes);
    for (size_t i = 0; i < events_.size(); ++i)
      if (!events_[i].empty()) place(i);
  }
  int last_step() const { return next_ - 1; }

 private:
  void find_events(const Steps& steps, const RankClasses& classes) {
    std::vector<RankSet> ranks{classes.all()};
    int block = -1;
    const auto open = [&](LoopId loop) {
      blocks_.push_back({block, next_, -1, loop});
      block = static_cast<int>(blocks_.size()) - 1;
    };
    const auto close = [&] {
      blocks_[static_cast<size_t>(block)].last = next_ - 1;
      block = parent(block);
    };
    const auto add = [&](const Step& step) {
      if (has_bodies(step)) return;
      for_each_access(step, [&](const Access& access, Use use) {
        events_[storage(program_, access.buffer).index].push_back(
            {next_, block, use, fixed_dims(access), classes.touching(step, access, use, ranks.back())});
      });
      ++next_;
    };
    const auto enter = [&](const Step& step, const Steps&) {
      const auto* loop = std::get_if<ForStep>(&step.what);
      open(loop ? loop->loop : LoopId{});
      ranks.push_back(classes.entering(step, ranks.back()));
    };
    const auto leave = [&](const Step&, const Steps&) {
      close();
      ranks.pop_back();
    };
    open({});
    walk(steps, add, enter, leave);
    close();
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
      return begins_as_left(events) || std::any_of(events.begin(), events.end(), [&](const Event& event) {
               return std::ranges::any_of(event.fixed, [&](const FixedDim& one) { return one.turn.loop == of.loop; });
             });
    };
    Lifetime life{routine_, events.front().step, events.back().step, block};
    const auto cover = [&](int inner) {
      if (!blocks_[static_cast<size_t>(inner)].loop) return;
      life.first = std::min(life.first, blocks_[static_cast<size_t>(inner)].first);
      life.last = std::max(life.last, blocks_[static_cast<size_t>(inner)].last);
    };
    for (const Event& event : events)  // an inner loop that uses it does so in every turn
      for (int inner = event.block; inner != block; inner = parent(inner)) cover(inner);
    // A branch in a loop is no end of it: the slots of its turns live on.
    for (int inner = block; inner >= 0; inner = parent(inner))
      if (survives(inner)) {
        cover(inner);
        block = parent(inner);
      } else if (blocks_[static_cast<size_t>(inner)].loop) {
        break;
      }
    life.block = block;
    RankSet users = events[0].ranks;
    for (const Event& event : events) unite(users, event.ranks);
    if (std::find(users.begin(), users.end(), false) != users.end()) life.ranks = users;
    if (result_[buffer].routine >= 0) life.routine = -1, life.ranks = {};  // another routine uses it too
    result_[buffer] = life;
  }

  /// Whether a rank uses what the turn before left there.
  static bool begins_as_left(const std::vector<Event>& events) {
    RankSet written(events[0].ranks.size());
    for (const Event& event : events) {
      if (event.use != Use::write && !includes(written, event.ranks)) return true;
      unite(written, event.ranks);
    }
    return false;
  }

  const Program& program_;
  int routine_;
  std::vector<Lifetime>& result_;
  std::vector<std::vector<Event>> events_;
  std::vector<Block> blocks_;
  int next_ = 0;
};

}  // namespace

std::vector<Lifetime> lifetimes(const Program& program) { return lifetimes(program, RankClasses(program)); }

std::vector<Lifetime> lifetimes(const Program& program, const RankClasses& classes) {
  std::vector<Lifetime> result(program.buffers.size());
  const std::vector<bool> outlives = outlive_routine(program);
  for (size_t r = 0; r < program.routines.size(); ++r) {
    const Walk walk(program, classes, static_cast<int>(r), result);
    for (size_t i = 0; i < result.size(); ++i)  // results are read when the routine has ended
      if (outlives[i] && result[i].routine == static_cast<int>(r)) result[i].last = walk.last_step() + 1;
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (program.buffers[i].stored) result[i].routine = -1;
    if (outlives[i]) result[i].ranks = {};  // callers read it on every rank
    if (program.buffers[i].stored) result[i].ranks = classes.holding({static_cast<uint32_t>(i)});
  }
  for (const EntryPoint& entry : program.entries)
    for (const Accumulator& one : entry.carried) result[one.buffer.index].routine = -1;
  for (size_t i = 0; i < result.size(); ++i)
    if (program.buffers[i].view_of) result[i].routine = -2;
  return result;
}

void for_each_numbered(const Steps& steps, const std::function<void(const Step&, int step, int block)>& visit) {
  int step = 0, blocks = 1;
  std::vector<int> open{0};
  walk(
      steps,
      [&](const Step& one) {
        if (!has_bodies(one)) visit(one, step++, open.back());
      },
      [&](const Step&, const Steps&) { open.push_back(blocks++); },
      [&](const Step&, const Steps&) { open.pop_back(); });
}

}  // namespace mesh
