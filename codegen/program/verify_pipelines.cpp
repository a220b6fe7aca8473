#include "codegen/program/verify_pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "codegen/graph/builder.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/pipeline_slots.h"
#include "codegen/program/print_program.h"
#include "codegen/program/walk.h"
#include "codegen/schedule/progress.h"

namespace mesh {

namespace {

class PipelineVerifier {
 public:
  PipelineVerifier(const Program& program, const RankClasses& classes, const ForStep& loop)
      : program_(program), classes_(classes), loop_(loop) {}
  std::vector<std::string> messages;

  void run() {
    std::set<ActionKind> kinds;
    for (const Step& step : loop_.body) {
      const auto& action = std::get<ActionStep>(step.what);
      kinds.insert(action.kind);
      body(action);
    }
    find_rings();
    const PipelineSchedule& schedule = loop_.order->schedule;
    if (const std::vector<Wait> waits = find_deadlock_in_slots(schedule, loop_.order->slots); !waits.empty())
      say("ranks wait for each other for ever: " + describe_deadlock(schedule, waits));
    const std::vector<int> home = schedule.rank_of_stage();
    for (int32_t stage = 0; stage < schedule.stages; ++stage)
      list(home[static_cast<size_t>(stage)], stage,
           schedule.ranks[static_cast<size_t>(home[static_cast<size_t>(stage)])], kinds);
  }

 private:
  void say(std::string message) { messages.push_back(std::move(message)); }

  // ---- within an action

  void body(const ActionStep& action) {
    std::vector<Coming> around{{nullptr, classes_.all(), {}}};
    std::vector<Coming> steps;
    walk(
        action.body,
        [&](const Step& step) {
          if (has_bodies(step)) return;
          steps.push_back({&step, around.back().ranks, around.back().stage});
          for (const CollectiveStep& moved : movements(step))
            if (contains(moved.axes, loop_.order->axis))
              say(summary(program_, step) + " waits for stages that are at other micro-batches");
        },
        [&](const Step& step, const Steps&) {
          const auto* branch = std::get_if<BranchStep>(&step.what);
          around.push_back({&step, classes_.entering(step, around.back().ranks), around.back().stage});
          if (branch && branch->stage && !branch->at.empty()) around.back().stage = stage_of(*loop_.order, *branch);
        },
        [&](const Step&, const Steps&) { around.pop_back(); });
    for (size_t at = 0; at < steps.size(); ++at) {
      const auto* message = std::get_if<MessageStep>(&steps[at].step->what);
      if (!message) continue;
      if (!std::ranges::count(message->value.turns, loop_.loop, &TurnIndex::loop))
        say(summary(program_, *steps[at].step) + " hands on what micro-batches have no slots for");
      const Use own = message->sends ? Use::read : Use::write;
      const RankSet moved = classes_.touching(*steps[at].step, message->value, own, steps[at].ranks);
      const size_t first = message->sends ? at + 1 : 0, end = message->sends ? steps.size() : at;
      for (size_t other = first; other < end; ++other) beside(*steps[at].step, *message, moved, steps[other]);
    }
  }

  /// A step, and who comes to it.
  struct Coming {
    const Step* step;
    RankSet ranks;
    std::optional<int32_t> stage;  // unset: every stage of a rank
  };

  /// Whether the message goes out of the stage, or into it.
  static bool has_message(const MessageStep& message, int32_t stage) {
    return message.among.has(stage) && message.among.has(message.down == message.sends ? stage - 1 : stage + 1);
  }

  /// A step that is executed while the value may be under way.
  void beside(const Step& of, const MessageStep& message, const RankSet& moved, const Coming& other) {
    if (other.stage && !has_message(message, *other.stage)) return;
    const BufferId value = storage(program_, message.value.buffer);
    for_each_access(*other.step, [&](const Access& access, Use use) {
      if (storage(program_, access.buffer) != value || (message.sends && use == Use::read)) return;
      if (intersect(moved, classes_.touching(*other.step, access, use, other.ranks)))
        say(fmt::format("{} {}: {}", summary(program_, *other.step),
                        message.sends ? "writes what may be under way" : "touches what may be coming in",
                        summary(program_, of)));
    });
  }

  // ---- along a list

  /// Where a stage's actions stand in the list of its rank.
  class Places {
   public:
    Places(const std::vector<Action>& actions, int32_t stage) : end_(actions.size()) {
      for (size_t at = 0; at < actions.size(); ++at) {
        const Action& one = actions[at];
        if (one.stage != stage) continue;
        places_[{one.kind, one.micro_batch}].push_back(at);
        if (one.kind != ActionKind::backward) continue;  // which is I and W, where there are these
        places_[{ActionKind::input_gradient, one.micro_batch}].push_back(at);
        places_[{ActionKind::weight_gradient, one.micro_batch}].push_back(at);
      }
    }
    size_t count(ActionKind kind, int32_t turn) const {
      const auto found = places_.find({kind, turn});
      return found == places_.end() ? 0 : found->second.size();
    }
    /// The end of the list where it has none.
    size_t of(ActionKind kind, int32_t turn) const {
      return count(kind, turn) == 0 ? end_ : places_.at({kind, turn}).front();
    }
    size_t end() const { return end_; }

   private:
    size_t end_;
    std::map<std::pair<ActionKind, int32_t>, std::vector<size_t>> places_;
  };

  void list(int32_t rank, int32_t stage, const std::vector<Action>& actions, const std::set<ActionKind>& kinds) {
    const Places places(actions, stage);
    for (int32_t turn = 0; turn < static_cast<int32_t>(loop_.turns); ++turn)
      for (const ActionKind kind : kinds) {
        const Action action{kind, stage, turn};
        if (kind == ActionKind::recompute) continue;  // no message either, and F may have kept all
        if (places.count(kind, turn) != 1) {
          say(fmt::format("rank {} has {} not once in its list", rank, to_text(action)));
          continue;
        }
        if (kind == ActionKind::weight_gradient) continue;  // it has no message
        const size_t made = places.of(kind, turn);
        const bool forward = kind == ActionKind::forward;
        if (places.of(forward ? ActionKind::send_forward : ActionKind::send_backward, turn) < made)
          say(fmt::format("rank {} sends what {} gives before it", rank, to_text(action)));
        const Action receive{forward ? ActionKind::receive_forward : ActionKind::receive_backward, stage, turn};
        const size_t received = places.of(receive.kind, turn);
        const bool comes = received < places.end();
        if (comes && received > made)
          say(fmt::format("rank {} receives what {} needs behind it", rank, to_text(action)));
        const Action& filled = comes ? receive : action;
        for (const Ring& ring : rings_[forward ? 0 : 1])
          if (const auto user = user_of_slot(places, filled, comes ? received : made, ring)) {
            say(fmt::format("rank {}: {} stands before {}, which uses the same slot", rank, to_text(filled),
                            to_text(actions[*user])));
            break;
          }
      }
  }

  /// How many slots a value has that stages hand on, and which actions use it.
  struct Ring {
    int32_t slots;
    std::set<SlotUse> uses;
    auto operator<=>(const Ring&) const = default;
  };

  void find_rings() {
    for (const MessageStep* message : handed_on(loop_))
      rings_[message->down ? 1 : 0].insert(
          {static_cast<int32_t>(program_.sharded.graph.dim(slots_of(program_, loop_, *message).dim).size),
           uses_of(program_, loop_, message->value.buffer)});
  }

  /// The last action of another turn that has the same slot, and has it at that place of the list.
  std::optional<size_t> user_of_slot(const Places& places, const Action& filled, size_t at, const Ring& ring) const {
    const bool forward = filled.kind == ActionKind::forward || filled.kind == ActionKind::receive_forward;
    for (int32_t other = filled.micro_batch % ring.slots; other < static_cast<int32_t>(loop_.turns);
         other += ring.slots) {
      size_t begun = places.of(forward ? ActionKind::receive_forward : ActionKind::receive_backward, other), last = 0;
      for (const SlotUse& use : ring.uses) {
        if (use.stage && *use.stage != filled.stage) continue;
        const bool kept = use.kind == ActionKind::recompute && places.count(use.kind, other) == 0;
        const size_t place = places.of(kept ? ActionKind::forward : use.kind, other);
        begun = std::min(begun, place);
        if (place < places.end()) last = std::max(last, place);
      }
      if (other != filled.micro_batch && begun < at && at < last) return last;
    }
    return std::nullopt;
  }

  const Program& program_;
  const RankClasses& classes_;
  const ForStep& loop_;
  std::array<std::set<Ring>, 2> rings_;  // of what goes up, and of what goes down
};

}  // namespace

std::vector<std::string> verify_pipelines(const Program& program, const Routine& routine, const RankClasses& classes) {
  std::vector<std::string> messages;
  for_each_step(routine.steps, [&](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    if (!loop || !loop->order) return;
    PipelineVerifier verifier(program, classes, *loop);
    verifier.run();
    messages.insert(messages.end(), verifier.messages.begin(), verifier.messages.end());
  });
  return messages;
}

}  // namespace mesh
