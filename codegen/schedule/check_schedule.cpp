#include "codegen/schedule/check_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace mesh {

namespace {

class ScheduleChecker {
 public:
  explicit ScheduleChecker(const PipelineSchedule& schedule)
      : schedule_(schedule), rank_of_stage_(schedule.rank_of_stage()), sends_(schedule.has_communication()) {
    for (const std::vector<Action>& actions : schedule.ranks) listed_.emplace_back(actions.begin(), actions.end());
  }

  std::vector<ScheduleMistake> run() {
    for (rank_ = 0; rank_ < static_cast<int>(schedule_.ranks.size()); ++rank_) {
      std::map<Action, size_t> seen;
      const std::vector<Action>& actions = schedule_.ranks[rank_];
      for (at_ = 0; at_ < actions.size(); ++at_) {
        if (actions[at_].kind == ActionKind::idle) continue;
        if (!seen.emplace(actions[at_], at_).second) say("stands twice in its list");
        look(actions[at_], seen);
      }
    }
    for (int32_t stage = 0; stage < schedule_.stages; ++stage) complete(stage);
    return std::move(mistakes_);
  }

 private:
  using Seen = std::map<Action, size_t>;

  /// Of the action that is looked at.
  void say(const std::string& what) {
    mistakes_.push_back({fmt::format("{} {}", to_text(schedule_.ranks[rank_][at_]), what), rank_, at_});
  }

  void look(const Action& action, const Seen& seen) {
    if (const int owner = rank_of_stage_[action.stage]; owner >= 0 && owner != rank_)
      return say(fmt::format("is of a stage that lies on rank {} already", owner));
    const auto came = [&](ActionKind kind) { return seen.contains({kind, action.stage, action.micro_batch}); };
    const auto follows = [&](ActionKind kind) { lacks({kind, action.stage, action.micro_batch}, seen); };
    switch (action.kind) {
      case ActionKind::recompute: follows(ActionKind::forward); break;
      case ActionKind::backward:
      case ActionKind::input_gradient:
        follows(ActionKind::forward);
        if (came(action.kind == ActionKind::backward ? ActionKind::input_gradient : ActionKind::backward))
          say("computes a gradient that is there already");
        break;
      case ActionKind::weight_gradient: follows(ActionKind::input_gradient); break;
      case ActionKind::reduce_gradient: last_of_its_stage(action); break;
      case ActionKind::send_forward: sent(action, came(ActionKind::forward), ActionKind::forward); break;
      case ActionKind::send_backward:
        sent(action, came(ActionKind::backward) || came(ActionKind::input_gradient), ActionKind::backward);
        break;
      case ActionKind::receive_forward: received(action, ActionKind::forward); break;
      case ActionKind::receive_backward: received(action, ActionKind::backward); break;
      case ActionKind::idle:
      case ActionKind::forward:
      case ActionKind::unshard:
      case ActionKind::reshard: break;
    }
    const bool recomputes_late =
        action.kind == ActionKind::recompute && (came(ActionKind::backward) || came(ActionKind::input_gradient));
    if (recomputes_late) say("comes after the gradient that it is for");
    if (const std::optional<Action> receive = receive_for(action, rank_of_stage_); sends_ && receive)
      lacks(*receive, seen);
  }

  /// Tells of what has to come first.
  void lacks(const Action& first, const Seen& seen) {
    if (seen.contains(first)) return;
    say(fmt::format("has no {} before it", to_text(first)));
    told_.insert(first);
  }

  void last_of_its_stage(const Action& action) {
    const std::vector<Action>& actions = schedule_.ranks[rank_];
    const auto later = std::find_if(actions.begin() + static_cast<int64_t>(at_), actions.end(), [&](const Action& one) {
      return one.stage == action.stage && frees_activations(one.kind);
    });
    if (later != actions.end()) say(fmt::format("comes before {}, which adds to the sum", to_text(*later)));
  }

  void sent(const Action& action, bool made, ActionKind maker) {
    const std::optional<Message> message = message_of({maker, action.stage, action.micro_batch}, rank_of_stage_);
    if (!message || message->send != action) say("goes to no other rank");
    else if (!made) say("sends what is not computed yet");
  }

  void received(const Action& action, ActionKind reader) {
    const std::optional<Action> receive = receive_for({reader, action.stage, action.micro_batch}, rank_of_stage_);
    if (!receive || *receive != action) say("comes from no other rank");
  }

  /// Each micro-batch once forward and once backward; with communication, each message sent and received.
  void complete(int32_t stage) {
    const int rank = rank_of_stage_[stage];
    if (rank < 0) {
      mistakes_.push_back({fmt::format("no rank computes stage {}", stage), -1, {}});
      return;
    }
    const auto has = [&](const Action& action) { return listed_[rank].contains(action); };
    constexpr size_t most_told = 8;
    std::string missing;
    size_t count = 0;
    const auto needs = [&](const Action& action) {
      if (has(action) || told_.contains(action)) return;
      if (++count <= most_told) missing += (missing.empty() ? "" : ", ") + to_text(action);
    };
    for (int32_t one = 0; one < schedule_.micro_batches; ++one) {
      const Action forward{ActionKind::forward, stage, one}, backward{ActionKind::backward, stage, one};
      needs(forward);
      if (has({ActionKind::input_gradient, stage, one})) needs({ActionKind::weight_gradient, stage, one});
      else if (!has({ActionKind::weight_gradient, stage, one})) needs(backward);
      if (!sends_) continue;
      for (const Action& action : {forward, backward}) {
        if (const std::optional<Message> message = message_of(action, rank_of_stage_)) needs(message->send);
        if (const std::optional<Action> receive = receive_for(action, rank_of_stage_)) needs(*receive);
      }
    }
    if (count > most_told) missing += fmt::format(" and {} more", count - most_told);
    if (!missing.empty()) mistakes_.push_back({fmt::format("stage {} lacks {}", stage, missing), rank, {}});
  }

  const PipelineSchedule& schedule_;
  const std::vector<int> rank_of_stage_;
  const bool sends_;
  std::vector<std::set<Action>> listed_;  // by rank
  std::set<Action> told_;                 // what was missed where it was needed
  int rank_ = 0;
  size_t at_ = 0;
  std::vector<ScheduleMistake> mistakes_;
};

}  // namespace

std::vector<ScheduleMistake> check_schedule(const PipelineSchedule& schedule) {
  return ScheduleChecker(schedule).run();
}

}  // namespace mesh
