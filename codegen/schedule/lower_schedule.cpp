#include "codegen/schedule/lower_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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
  Communication(const PipelineSchedule& schedule, std::optional<int32_t> slots, std::optional<int32_t> waiting)
      : schedule_(schedule),
        home_(schedule.rank_of_stage()),
        slots_(slots),
        waiting_(waiting),
        posts_(schedule.ranks.size()),
        last_(schedule.stages) {
    for (const std::vector<Action>& actions : schedule.ranks)
      for (const Action& action : actions)
        if (action.kind != ActionKind::idle) last_[action.stage][action.micro_batch] = action;
  }

  std::optional<PipelineSchedule> run() {
    PipelineSchedule lowered{schedule_.stages, schedule_.micro_batches, {}};
    lowered.ranks.resize(schedule_.ranks.size());
    std::vector<size_t> next(schedule_.ranks.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < next.size(); ++rank) {
        while (post(rank, lowered.ranks[rank])) moved = true;
        if (next[rank] == schedule_.ranks[rank].size()) continue;
        const Action& action = schedule_.ranks[rank][next[rank]];
        if (!is_ready(action)) continue;
        ++next[rank];
        moved = true;
        if (action.kind == ActionKind::idle) continue;
        done_.insert(action);
        lowered.ranks[rank].push_back(action);
        const std::optional<Message> message = message_of(action, home_);
        if (!message) continue;
        lowered.ranks[rank].push_back(message->send);
        posts_[message->to].push_back(message->receive);
        while (post(message->to, lowered.ranks[message->to])) continue;
      }
    }
    for (size_t rank = 0; rank < next.size(); ++rank)
      if (next[rank] != schedule_.ranks[rank].size()) return std::nullopt;
    return lowered;
  }

 private:
  /// Whether that holds for all other micro-batches that have the slot of this one.
  template <class Holds>
  bool for_each_sharing(int32_t micro_batch, const Holds& holds) const {
    if (!slots_) return true;
    for (int32_t other = micro_batch % *slots_; other < schedule_.micro_batches; other += *slots_)
      if (other != micro_batch && !holds(other)) return false;
    return true;
  }

  /// Whether what the stage gave on from the slot that the action fills has been asked for.
  bool is_taken(const Action& of, ActionKind maker) const {
    return for_each_sharing(of.micro_batch, [&](int32_t other) {
      if (!made(maker, of.stage, other)) return true;
      if (const std::optional<Message> message = message_of({maker, of.stage, other}, home_))
        return done_.contains(message->receive);
      const int32_t reader = of.stage + (maker == ActionKind::forward ? 1 : -1);
      return reader < 0 || reader == schedule_.stages || made(maker, reader, other);  // of the same rank
    });
  }

  bool made(ActionKind maker, int32_t stage, int32_t micro_batch) const {
    return done_.contains({maker, stage, micro_batch}) ||
           (maker == ActionKind::backward && done_.contains({ActionKind::input_gradient, stage, micro_batch}));
  }

  bool is_ready(const Action& action) const {
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !gives_gradient(action.kind)) return true;
    const ActionKind maker = forward ? ActionKind::forward : ActionKind::backward;
    const int32_t giver = action.stage + (forward ? -1 : 1);
    const bool begins = giver < 0 || giver == schedule_.stages;
    return (begins || made(maker, giver, action.micro_batch)) && is_taken(action, maker) && has_come(action);
  }

  bool has_come(const Action& action) const {
    const std::optional<Action> receive = receive_for(action, home_);
    return !receive || done_.contains(*receive);
  }

  /// The first receive that the rank has to post and whose slot is free. Those of a stage keep their order.
  bool post(size_t rank, std::vector<Action>& list) {
    std::set<std::pair<ActionKind, int32_t>> held_up;
    for (auto receive = posts_[rank].begin(); receive != posts_[rank].end(); ++receive) {
      const std::pair of{receive->kind, receive->stage};
      if (held_up.contains(of) || !has_room(*receive) || !is_free(*receive)) {
        held_up.insert(of);
        continue;
      }
      list.push_back(*receive);
      done_.insert(*receive);
      posts_[rank].erase(receive);
      return true;
    }
    return false;
  }

  /// Whether fewer than may wait have been posted and not been used.
  bool has_room(const Action& receive) const {
    if (!waiting_) return true;
    const ActionKind user = receive.kind == ActionKind::receive_forward ? ActionKind::forward : ActionKind::backward;
    int32_t unused = 0;
    for (int32_t other = 0; other < schedule_.micro_batches; ++other)
      unused += done_.contains({receive.kind, receive.stage, other}) && !made(user, receive.stage, other) ? 1 : 0;
    return unused < *waiting_;
  }

  bool is_free(const Action& receive) const {
    const bool forward = receive.kind == ActionKind::receive_forward;
    const auto has_ended = [&](int32_t other) {
      const bool begun = done_.contains({ActionKind::receive_forward, receive.stage, other}) ||
                         done_.contains({ActionKind::forward, receive.stage, other});
      return !begun || done_.contains(last_[receive.stage].at(other));
    };
    return for_each_sharing(receive.micro_batch, has_ended) &&
           is_taken(receive, forward ? ActionKind::forward : ActionKind::backward);
  }

  const PipelineSchedule& schedule_;
  const std::vector<int> home_;
  const std::optional<int32_t> slots_, waiting_;
  std::vector<std::vector<Action>> posts_;       // by rank: receives of what is sent
  std::vector<std::map<int32_t, Action>> last_;  // by stage and micro-batch
  std::set<Action> done_;                        // receives that are posted, too
};

}  // namespace

std::optional<PipelineSchedule> with_communication(const PipelineSchedule& schedule, std::optional<int32_t> slots,
                                                   std::optional<int32_t> waiting) {
  return Communication(schedule, slots, waiting).run();
}

std::optional<SlottedSchedule> with_fewest_slots(const PipelineSchedule& schedule, int32_t least,
                                                 std::optional<int32_t> waiting) {
  for (int32_t slots = std::min(least, schedule.micro_batches); slots <= schedule.micro_batches; ++slots)
    if (std::optional<PipelineSchedule> whole = with_communication(schedule, slots, waiting))
      return SlottedSchedule{std::move(*whole), slots};
  return std::nullopt;
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
