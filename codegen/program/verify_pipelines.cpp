#include "codegen/program/verify_pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/pipeline_slots.h"
#include "codegen/program/print_program.h"
#include "codegen/program/walk.h"

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
    const std::vector<std::vector<Action>>& ranks = loop_.order->schedule.ranks;
    for (size_t rank = 0; rank < ranks.size(); ++rank) list(static_cast<int32_t>(rank), ranks[rank], kinds);
  }

 private:
  void say(std::string message) { messages.push_back(std::move(message)); }

  // ---- within an action

  void body(const ActionStep& action) {
    std::vector<RankSet> ranks{classes_.all()};
    std::vector<const Step*> steps;
    std::vector<RankSet> come;  // to each of the steps
    walk(
        action.body,
        [&](const Step& step) {
          if (has_bodies(step)) return;
          steps.push_back(&step);
          come.push_back(ranks.back());
        },
        [&](const Step& step, const Steps&) { ranks.push_back(classes_.entering(step, ranks.back())); },
        [&](const Step&, const Steps&) { ranks.pop_back(); });
    for (size_t at = 0; at < steps.size(); ++at) {
      const auto* message = std::get_if<MessageStep>(&steps[at]->what);
      if (!message) continue;
      const Use own = message->sends ? Use::read : Use::write;
      const RankSet moved = classes_.touching(*steps[at], message->value, own, come[at]);
      const size_t first = message->sends ? at + 1 : 0, end = message->sends ? steps.size() : at;
      for (size_t other = first; other < end; ++other) beside(*steps[at], *message, moved, *steps[other], come[other]);
    }
  }

  /// A step that is executed while the value may be under way.
  void beside(const Step& of, const MessageStep& message, const RankSet& moved, const Step& step,
              const RankSet& ranks) {
    const BufferId value = storage(program_, message.value.buffer);
    for_each_access(step, [&](const Access& access, Use use) {
      if (storage(program_, access.buffer) != value || (message.sends && use == Use::read)) return;
      if (intersect(moved, classes_.touching(step, access, use, ranks)))
        say(fmt::format("{} {}: {}", summary(program_, step),
                        message.sends ? "writes what may be under way" : "touches what may be coming in",
                        summary(program_, of)));
    });
  }

  // ---- along a list

  void list(int32_t rank, const std::vector<Action>& actions, const std::set<ActionKind>& kinds) {
    const auto place = [&](ActionKind kind, int32_t turn) {
      return std::ranges::find(actions, Action{kind, rank, turn}) - actions.begin();
    };
    const auto end = static_cast<std::ptrdiff_t>(actions.size());
    const auto slots = static_cast<int32_t>(slots_of(*loop_.order));
    for (int32_t turn = 0; turn < static_cast<int32_t>(loop_.turns); ++turn)
      for (const ActionKind kind : kinds) {
        const Action action{kind, rank, turn};
        const auto made = place(kind, turn);
        if (std::ranges::count(actions, action) != 1) {
          say(fmt::format("rank {} has {} not once in its list", rank, to_text(action)));
          continue;
        }
        const bool forward = kind == ActionKind::forward;
        const auto sent = place(forward ? ActionKind::send_forward : ActionKind::send_backward, turn);
        if (sent < made) say(fmt::format("rank {} sends what {} gives before it", rank, to_text(action)));
        const Action receive{forward ? ActionKind::receive_forward : ActionKind::receive_backward, rank, turn};
        const auto received = place(receive.kind, turn);
        if (received == end) continue;
        if (received > made) say(fmt::format("rank {} receives what {} needs behind it", rank, to_text(action)));
        for (const ActionKind earlier : kinds)
          if (turn >= slots && place(earlier, turn - slots) > received)
            say(fmt::format("rank {}: {} stands before {}, which uses the same slot", rank, to_text(receive),
                            to_text(Action{earlier, rank, turn - slots})));
      }
  }

  const Program& program_;
  const RankClasses& classes_;
  const ForStep& loop_;
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
