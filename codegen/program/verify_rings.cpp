#include "codegen/program/verify_rings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/print_program.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

/// Goes through a routine as it is executed, of loops that turn a ring as many turns as its slots need to come again.
class RingWalk {
 public:
  RingWalk(const Program& program, const Routine& routine) : program_(program) {
    for_each_step(routine.steps, [&](const Step& step) {
      if (!has_bodies(step)) for_each_access(step, [&](const Access& access, Use) { look(access); });
    });
    if (!rings_.empty()) execute(routine.steps);
  }
  std::vector<std::string> messages;

 private:
  using Slots = std::vector<int64_t>;

  void look(const Access& access) {
    for (const TurnIndex& turn : access.turns) {
      if (turn.period == 0) continue;
      rings_.insert(storage(program_, access.buffer).index);
      int64_t& period = periods_[turn.loop];
      period = std::max(period, turn.period);
    }
  }

  void execute(const Steps& steps) {
    for (const Step& step : steps) {
      const auto* loop = std::get_if<ForStep>(&step.what);
      const auto ring = loop ? periods_.find(loop->loop) : periods_.end();
      const int64_t times = ring == periods_.end() ? 1 : std::min(loop->turns, 2 * ring->second);
      for (int64_t i = 0; i < times; ++i) {
        if (loop) turns_[loop->loop] = loop->reverse ? loop->turns - 1 - i : i;
        for (const Steps* body : bodies(step)) execute(*body);
      }
      if (!has_bodies(step)) for_each_access(step, [&](const Access& access, Use use) { touch(step, access, use); });
    }
  }

  void touch(const Step& step, const Access& access, Use use) {
    const uint32_t root = storage(program_, access.buffer).index;
    if (!rings_.contains(root) || program_.buffers[root].stored) return;
    Slots slots;  // none: all of the buffer
    for (const TurnIndex& turn : access.turns)
      // Of a loop that turns no ring one turn stands for all.
      slots.push_back(turn.loop && !periods_.contains(turn.loop) ? 0 : turn.slot(turn.loop ? turns_[turn.loop] : 0));
    std::set<Slots>& written = written_[root];
    if (use != Use::write && !is_running_sum(program_, step, {root}) &&
        !std::ranges::any_of(written, [&](const Slots& one) { return holds(one, slots); })) {
      std::string message = fmt::format("{} reads {} before anything writes that slot", summary(program_, step),
                                        to_string(program_, access));
      if (std::ranges::find(messages, message) == messages.end()) messages.push_back(std::move(message));
    }
    if (use != Use::read) written.insert(slots);
  }

  /// Whether one is, or is a part of, the other: a slot for each turn of an inner loop lies in the outer one's.
  static bool holds(const Slots& one, const Slots& other) {
    const auto shorter = static_cast<std::ptrdiff_t>(std::min(one.size(), other.size()));
    return std::equal(one.begin(), one.begin() + shorter, other.begin());
  }

  const Program& program_;
  std::set<uint32_t> rings_;           // buffers
  std::map<LoopId, int64_t> periods_;  // of loops that turn a ring: the longest
  std::map<LoopId, int64_t> turns_;    // under way
  std::map<uint32_t, std::set<Slots>> written_;
};

}  // namespace

std::vector<std::string> verify_rings(const Program& program, const Routine& routine) {
  return RingWalk(program, routine).messages;
}

}  // namespace mesh
