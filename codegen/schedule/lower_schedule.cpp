#include "codegen/schedule/lower_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "codegen/schedule/in_flight.h"

namespace mesh {

PipelineSchedule with_recompute(PipelineSchedule schedule, Remat remat) {
  if (remat == Remat::none) return schedule;
  for (std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action> lowered;
    for (const Action& action : actions) {
      const bool kept = remat == Remat::except_last && action.micro_batch + 1 == schedule.micro_batches;
      if (gives_gradient(action.kind) && !kept)
        lowered.push_back({ActionKind::recompute, action.stage, action.micro_batch});
      lowered.push_back(action);
    }
    actions = std::move(lowered);
  }
  return schedule;
}

namespace {

/// Goes through all lists at once, each rank as far as it comes, and so puts every message where both ends are.
class Communication {
 public:
  Communication(const PipelineSchedule& schedule, std::optional<int32_t> waiting)
      : schedule_(schedule),
        home_(schedule.rank_of_stage()),
        waiting_(waiting),
        next_(schedule.ranks.size()),
        posts_(schedule.ranks.size()),
        lowered_{schedule.stages, schedule.micro_batches, {}} {
    lowered_.ranks.resize(schedule.ranks.size());
  }

  /// Whether all ranks come to their ends.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < next_.size(); ++rank) {
        while (post(rank)) moved = true;
        if (at_end(rank) || waits_for(action(rank))) continue;
        make(rank);
        moved = true;
      }
    }
    for (size_t rank = 0; rank < next_.size(); ++rank)
      if (!at_end(rank)) return false;
    return true;
  }

  PipelineSchedule take() { return std::move(lowered_); }

  /// Of those that have not come to their ends.
  std::vector<Wait> waits() const {
    std::vector<Wait> all;
    for (size_t rank = 0; rank < next_.size(); ++rank)
      if (!at_end(rank)) {
        const Action awaited = *waits_for(action(rank));
        all.push_back({static_cast<int>(rank), next_[rank], awaited, home_[static_cast<size_t>(awaited.stage)]});
      }
    return all;
  }

 private:
  bool at_end(size_t rank) const { return next_[rank] == schedule_.ranks[rank].size(); }
  const Action& action(size_t rank) const { return schedule_.ranks[rank][next_[rank]]; }

  void make(size_t rank) {
    const Action made = action(rank);
    ++next_[rank];
    if (made.kind == ActionKind::idle) return;
    done_.insert(made);
    lowered_.ranks[rank].push_back(made);
    const std::optional<Message> message = message_of(made, home_);
    if (!message) return;
    lowered_.ranks[rank].push_back(message->send);
    posts_[message->to].push_back(message->receive);
    while (post(message->to)) continue;
  }

  /// The receive of what another micro-batch has given on from the slot that the action fills, if that is to come yet.
  std::optional<Action> not_taken(const Action& of, ActionKind maker) const {
    if (!waiting_) return {};
    const int32_t slots = slots_of_messages(schedule_, *waiting_);
    for (int32_t other = of.micro_batch % slots; other < schedule_.micro_batches; other += slots)
      if (other != of.micro_batch && made(maker, of.stage, other))
        if (const std::optional<Message> message = message_of({maker, of.stage, other}, home_))
          if (!done_.contains(message->receive)) return message->receive;
    return {};
  }

  bool made(ActionKind maker, int32_t stage, int32_t micro_batch) const {
    return done_.contains({maker, stage, micro_batch}) ||
           (maker == ActionKind::backward && done_.contains({ActionKind::input_gradient, stage, micro_batch}));
  }

  /// What has to be done before the action.
  std::optional<Action> waits_for(const Action& action) const {
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !gives_gradient(action.kind)) return {};
    const ActionKind maker = forward ? ActionKind::forward : ActionKind::backward;
    const int32_t giver = action.stage + (forward ? -1 : 1);
    const bool begins = giver < 0 || giver == schedule_.stages;
    if (const Action given{maker, giver, action.micro_batch}; !begins && !made(maker, giver, action.micro_batch)) {
      const std::optional<Message> message = message_of(given, home_);
      return message ? message->send : given;
    }
    if (const auto other = not_taken(action, maker)) return other;
    const std::optional<Action> receive = receive_for(action, home_);
    if (!receive || done_.contains(*receive)) return {};
    const std::optional<Action> other = not_taken(*receive, maker);
    return other ? other : receive;
  }

  /// The first receive that the rank has to post and whose slot is free. Those of a stage keep their order.
  bool post(size_t rank) {
    std::set<std::pair<ActionKind, int32_t>> held_up;
    for (auto receive = posts_[rank].begin(); receive != posts_[rank].end(); ++receive) {
      const std::pair of{receive->kind, receive->stage};
      const ActionKind user = receive->kind == ActionKind::receive_forward ? ActionKind::forward : ActionKind::backward;
      if (held_up.contains(of) || !has_room(*receive, user) || not_taken(*receive, user)) {
        held_up.insert(of);
        continue;
      }
      lowered_.ranks[rank].push_back(*receive);
      done_.insert(*receive);
      posts_[rank].erase(receive);
      return true;
    }
    return false;
  }

  /// Whether fewer than may wait have been posted and not been used.
  bool has_room(const Action& receive, ActionKind user) const {
    if (!waiting_) return true;
    int32_t unused = 0;
    for (int32_t other = 0; other < schedule_.micro_batches; ++other)
      unused += done_.contains({receive.kind, receive.stage, other}) && !made(user, receive.stage, other) ? 1 : 0;
    return unused < *waiting_;
  }

  const PipelineSchedule& schedule_;
  const std::vector<int> home_;
  const std::optional<int32_t> waiting_;
  std::vector<size_t> next_;                // by rank: places in its list
  std::vector<std::vector<Action>> posts_;  // by rank: receives of what is sent
  std::set<Action> done_;                   // receives that are posted, too
  PipelineSchedule lowered_;
};

}  // namespace

std::optional<PipelineSchedule> with_communication(const PipelineSchedule& schedule, std::optional<int32_t> waiting) {
  Communication communication(schedule, waiting);
  return communication.run() ? std::optional(communication.take()) : std::nullopt;
}

std::vector<Wait> waits_for_room(const PipelineSchedule& schedule, int32_t waiting) {
  Communication communication(schedule, waiting);
  communication.run();
  return communication.waits();
}

int32_t least_waiting(const PipelineSchedule& schedule, int32_t least) {
  while (least < schedule.micro_batches && !waits_for_room(schedule, least).empty()) ++least;
  return least;
}

int32_t slots_of_messages(const PipelineSchedule& schedule, int32_t waiting) {
  return std::min(schedule.micro_batches, waiting + 1);
}

std::optional<WithMessages> with_messages(const PipelineSchedule& schedule, std::optional<int32_t> waiting) {
  if (waiting) *waiting = least_waiting(schedule, *waiting);
  std::optional<PipelineSchedule> whole = with_communication(schedule, waiting);
  if (!whole) return std::nullopt;
  const int32_t room = waiting ? *waiting : std::max(1, most_waiting(*whole));
  return WithMessages{std::move(*whole), room};
}

PipelineSchedule with_whole_backwards(PipelineSchedule schedule) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action> merged;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::idle) continue;
      const Action half{ActionKind::input_gradient, action.stage, action.micro_batch};
      if (action.kind == ActionKind::weight_gradient && !merged.empty() && merged.back() == half)
        merged.back().kind = ActionKind::backward;
      else merged.push_back(action);
    }
    actions = std::move(merged);
  }
  return schedule;
}

PipelineSchedule with_split_backwards(PipelineSchedule schedule) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action> split;
    for (const Action& action : actions) {
      split.push_back(action);
      if (action.kind != ActionKind::backward) continue;
      split.back().kind = ActionKind::input_gradient;
      split.push_back({ActionKind::weight_gradient, action.stage, action.micro_batch});
    }
    actions = std::move(split);
  }
  return schedule;
}

PipelineSchedule with_gathered_parameters(PipelineSchedule schedule, int most) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action> lowered;
    std::vector<int32_t> whole;  // stages, the one gathered first in front
    for (size_t at = 0; at < actions.size(); ++at) {
      if (actions[at].kind == ActionKind::idle) continue;
      // The stages that are used next, this action's first.
      std::vector<int32_t> wanted;
      for (size_t later = at; later < actions.size() && wanted.size() < static_cast<size_t>(most); ++later)
        if (actions[later].kind != ActionKind::idle && std::ranges::find(wanted, actions[later].stage) == wanted.end())
          wanted.push_back(actions[later].stage);
      std::erase_if(whole, [&](int32_t stage) {
        if (std::ranges::find(wanted, stage) != wanted.end()) return false;
        lowered.push_back({ActionKind::reshard, stage, -1});
        return true;
      });
      for (const int32_t stage : wanted)
        if (std::ranges::find(whole, stage) == whole.end()) {
          lowered.push_back({ActionKind::unshard, stage, -1});
          whole.push_back(stage);
        }
      lowered.push_back(actions[at]);
    }
    for (const int32_t stage : whole) lowered.push_back({ActionKind::reshard, stage, -1});
    actions = std::move(lowered);
  }
  return schedule;
}

PipelineSchedule with_reduced_gradients(PipelineSchedule schedule) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::set<int32_t> reduced;
    std::vector<Action> backwards;  // the list, its end first
    for (size_t at = actions.size(); at-- > 0;) {
      if (frees_activations(actions[at].kind) && reduced.insert(actions[at].stage).second)
        backwards.push_back({ActionKind::reduce_gradient, actions[at].stage, -1});
      backwards.push_back(actions[at]);
    }
    actions.assign(backwards.rbegin(), backwards.rend());
  }
  return schedule;
}

}  // namespace mesh
