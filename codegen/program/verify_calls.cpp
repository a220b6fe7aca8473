#include <fmt/format.h>

#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/fuse.h"
#include "codegen/program/overlap.h"
#include "codegen/program/print_program.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;

class CallVerifier {
 public:
  explicit CallVerifier(const Program& program) : program_(program) {}
  std::vector<std::string> messages;

  /// Of lists that are executed one after the other: what is started ends.
  void lists(std::span<const Step> first, std::span<const Step> second) {
    for (const Call& call : open_after(second, open_after(first, {}))) say("{} is never waited for", *call.step);
  }

 private:
  struct Call {
    const Step* step;
    StepSets sets;
    LoopId loop = {};  // set: its turns have started it
  };
  enum class Turn : uint8_t { first, middle, last, any };

  /// Follows the steps of a list. Those of a loop that waits may wait for what the turns of an earlier one have
  /// started, `behind`. What is under way when they have been executed.
  std::vector<Call> open_after(std::span<const Step> steps, std::span<const Call> behind, Turn turn = Turn::any) {
    std::vector<Call> started(behind.begin(), behind.end());
    for (const Step& step : steps) {
      const auto moved = movements(step);
      if (!moved.empty() && (does_nothing(moved.front(), turn) || is_too_early(moved.front()))) continue;
      if (is_in(step, Phase::wait)) {
        const auto own = std::ranges::find_if(started, [&](const Call& call) { return waits_for(step, *call.step); });
        const bool always = own == started.end() || !around(movements(*own->step).front().last_turn);
        if (own != started.end() && always) started.erase(own);
        else say("{} waits for what was not started", step);
        continue;
      }
      const auto* inner = std::get_if<ForStep>(&step.what);
      const bool handing = inner && hands_over(*inner);
      std::vector<Call> awaited;
      if (inner && (handing || ends_others(*inner)))
        std::ranges::copy_if(started, std::back_inserter(awaited), [&](const Call& call) {
          return call.loop == inner->loop && (handing || is_awaited_in(inner->body, call));
        });
      const StepSets own = sets_of(program_, step);
      for (const Call& call : started) {
        if (!conflict(call.sets, own)) continue;
        if (std::ranges::find(awaited, call.step, &Call::step) != awaited.end()) continue;
        if (const BufferId both = common_memory(program_, *call.step, step)) touches(step, both, *call.step);
      }
      if (is_in(step, Phase::start)) {
        const LoopId last = movements(step).front().last_turn;
        const Around* loop = around(last);
        if (last && (!loop || !is_plain(*loop->loop) || loop->loop->reverse))
          say("{} is in no last turn that all ranks make", step);
        started.push_back({&step, own});
      }
      if (inner) around_.push_back({inner, Turn::any});
      if (handing) {
        for (const Call& call : awaited) std::erase_if(started, [&](const Call& one) { return one.step == call.step; });
        for (const Call& call : open_after_turns(*inner, std::move(awaited)))
          started.push_back({call.step, call.sets, is_of_last_turn(call, *inner) ? call.loop : inner->loop});
        around_.pop_back();
        continue;
      }
      for (const Steps* body : bodies(step)) {
        for (const Call& call : awaited) next_turns(*body, *call.step, inner->loop);
        const LoopId turns = inner && !inner->order && !inner->own ? inner->loop : LoopId{};
        const std::vector<Call> left = open_after(*body, awaited);
        for (const Call& call : awaited) std::erase_if(started, [&](const Call& one) { return one.step == call.step; });
        for (const Call& call : left) {
          if (inner && is_of_last_turn(call, *inner)) {
            started.push_back(call);
            continue;
          }
          if (!turns) say("{} is never waited for", *call.step);
          else if (!call.loop && inner->only == ForStep::Only::every) next_turns(*body, *call.step, turns);
          started.push_back({call.step, call.sets, turns});
        }
      }
      if (inner) around_.pop_back();
    }
    return started;
  }

  /// Of a loop whose turns start and wait for each other's. What no turn waits for outlasts them all.
  std::vector<Call> open_after_turns(const ForStep& loop, std::vector<Call> open) {
    std::vector<Call> lasting;
    for (const Turn turn : {Turn::first, Turn::middle, Turn::last}) {
      if (turn == Turn::middle && loop.turns < 3) continue;
      around_.back().turn = turn;
      const std::vector<Call> left = open_after(loop.body, open, turn);
      open.clear();
      for (const Call& call : left) (is_awaited_in(loop.body, call) ? open : lasting).push_back(call);
    }
    for (const Call& call : lasting) {
      if (std::ranges::find(open, call.step, &Call::step) != open.end()) continue;  // of another turn
      if (!call.loop && !is_of_last_turn(call, loop)) next_turns(loop.body, *call.step, loop.loop);
      open.push_back(call);
    }
    return open;
  }

  static bool is_awaited_in(const Steps& body, const Call& call) {
    return std::ranges::any_of(body, [&](const Step& step) { return waits_for(step, *call.step); });
  }
  static bool waits_for(const Step& step, const Step& call) {
    return is_in(step, Phase::wait) && same(movements(call), movements(step));
  }

  /// Of what there is no such turn.
  static bool does_nothing(const CollectiveStep& one, Turn turn) {
    return one.other_turn && turn == (one.phase == Phase::start ? Turn::last : Turn::first);
  }

  /// What a turn starts, or waits for, is under way while other ones are executed: these have slots of their own.
  void next_turns(const Steps& body, const Step& call, LoopId loop) {
    for (const Step& step : body)
      if (!waits_for(step, call) && !keeps_to_its_turn(program_, call, step, loop))
        touches(step, movements(call).front().to.buffer, call);
  }

  void touches(const Step& step, BufferId both, const Step& call) {
    add(fmt::format("{} touches {} while this is under way: {}", summary(program_, step), program_.buffer(both).name,
                    summary(program_, call)));
  }

  void say(fmt::format_string<std::string> what, const Step& step) { add(fmt::format(what, summary(program_, step))); }

  void add(std::string message) {  // turns of a loop have the same to say
    if (std::ranges::find(messages, message) == messages.end()) messages.push_back(std::move(message));
  }

  static bool same(std::span<const CollectiveStep> a, std::span<const CollectiveStep> b) {
    return std::ranges::equal(a, b, [](const CollectiveStep& one, const CollectiveStep& other) {
      return one.step == other.step && one.from == other.from && one.to == other.to;
    });
  }

  struct Around {
    const ForStep* loop;
    Turn turn;
  };
  /// The loop with this number, if it is around the list that is followed.
  const Around* around(LoopId loop) const {
    const auto found = std::ranges::find_if(around_, [&](const Around& one) { return one.loop->loop == loop; });
    return found == around_.end() ? nullptr : &*found;
  }
  /// Whether the last turn of its loop is still to come.
  bool is_too_early(const CollectiveStep& one) const {
    const Around* loop = around(one.last_turn);
    return loop && (loop->turn == Turn::first || loop->turn == Turn::middle);
  }
  /// Whether only the loop's last turn starts it: no other one is executed while it is under way.
  static bool is_of_last_turn(const Call& call, const ForStep& loop) {
    return movements(*call.step).front().last_turn == loop.loop;
  }

  const Program& program_;
  std::vector<Around> around_;  // the list that is followed
};

}  // namespace

std::vector<std::string> verify_calls(const Program& program, std::span<const Step> forward,
                                      std::span<const Step> own) {
  CallVerifier verifier(program);
  verifier.lists(forward, own);
  return std::move(verifier.messages);
}

}  // namespace mesh
