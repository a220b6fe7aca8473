#include "codegen/schedule/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace mesh {

namespace {

using Stage = int32_t;

bool is_receive(ActionKind kind) { return kind == ActionKind::receive_forward || kind == ActionKind::receive_backward; }
bool is_send(ActionKind kind) { return kind == ActionKind::send_forward || kind == ActionKind::send_backward; }

/// Where ranks stand, and what they have done.
class Standing {
 public:
  explicit Standing(const PipelineSchedule& schedule)
      : schedule(schedule), rank_of_stage(schedule.rank_of_stage()), next(schedule.ranks.size()) {}

  bool done(const Action& action) const { return done_.contains(action); }
  bool at_end(size_t rank) const { return next[rank] == schedule.ranks[rank].size(); }
  const Action& action(size_t rank) const { return schedule.ranks[rank][next[rank]]; }
  void step(size_t rank) {
    done_.insert(action(rank));
    ++next[rank];
    while (!at_end(rank) && action(rank).kind == ActionKind::idle) ++next[rank];
  }
  void skip_idle() {
    for (size_t rank = 0; rank < next.size(); ++rank)
      while (!at_end(rank) && action(rank).kind == ActionKind::idle) ++next[rank];
  }

  /// What the action needs of its own rank that is not done.
  std::optional<Action> missing_here(const Action& of) const {
    const auto lacks = [&](ActionKind kind, Stage stage) -> std::optional<Action> {
      const Action needed{kind, stage, of.micro_batch};
      return done(needed) ? std::nullopt : std::optional(needed);
    };
    switch (of.kind) {
      case ActionKind::forward:
        if (of.stage == 0 || receive_for(of, rank_of_stage)) return {};
        return lacks(ActionKind::forward, of.stage - 1);
      case ActionKind::backward:
      case ActionKind::input_gradient: {
        if (const auto forward = lacks(ActionKind::forward, of.stage)) return forward;
        if (of.stage + 1 == schedule.stages || receive_for(of, rank_of_stage)) return {};
        if (!lacks(ActionKind::input_gradient, of.stage + 1)) return {};
        return lacks(ActionKind::backward, of.stage + 1);
      }
      case ActionKind::recompute: return lacks(ActionKind::forward, of.stage);
      case ActionKind::weight_gradient: return lacks(ActionKind::input_gradient, of.stage);
      case ActionKind::idle:
      case ActionKind::send_forward:
      case ActionKind::receive_forward:
      case ActionKind::send_backward:
      case ActionKind::receive_backward:
      case ActionKind::unshard:
      case ActionKind::reshard:
      case ActionKind::reduce_gradient: break;
    }
    return {};
  }

  const PipelineSchedule& schedule;
  const std::vector<int> rank_of_stage;
  std::vector<size_t> next;

 private:
  std::set<Action> done_;
};

/// The send that a receive takes, and the receive that a send is for.
Action counterpart(const Action& of) {
  switch (of.kind) {
    case ActionKind::receive_forward: return {ActionKind::send_forward, of.stage - 1, of.micro_batch};
    case ActionKind::receive_backward: return {ActionKind::send_backward, of.stage + 1, of.micro_batch};
    case ActionKind::send_forward: return {ActionKind::receive_forward, of.stage + 1, of.micro_batch};
    default: return {ActionKind::receive_backward, of.stage - 1, of.micro_batch};
  }
}

/// Lists that say when messages are sent and received.
class Rendezvous {
 public:
  /// With slots, nobody waits for the end of a send but who fills the slot that it is sent from, nor for what
  /// a stage never receives: nothing goes to it from that side.
  explicit Rendezvous(const PipelineSchedule& schedule, std::optional<int32_t> slots = {})
      : at_(schedule), slots_(slots) {
    at_.skip_idle();
    for (const std::vector<Action>& actions : schedule.ranks)
      for (const Action& one : actions)
        if (is_receive(one.kind)) receiving_.emplace(one.kind, one.stage);
  }

  std::vector<Wait> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < at_.next.size(); ++rank)
        for (; !at_.at_end(rank) && !awaited(at_.action(rank)); moved = true) at_.step(rank);
    }
    std::vector<Wait> waits;
    for (size_t rank = 0; rank < at_.next.size(); ++rank)
      if (!at_.at_end(rank)) {
        const Action needed = *awaited(at_.action(rank));
        waits.push_back({static_cast<int>(rank), at_.next[rank], needed, at_.rank_of_stage[needed.stage]});
      }
    return waits;
  }

 private:
  std::optional<Action> awaited(const Action& action) const {
    if (is_send(action.kind)) {
      const Action receive = counterpart(action);
      return slots_ || at_.done(receive) ? std::nullopt : std::optional(receive);
    }
    if (const auto other = not_taken(action)) return other;
    const auto receive = receive_for(action, at_.rank_of_stage);
    if (receive && (!slots_ || receiving_.contains({receive->kind, receive->stage}))) {
      if (!at_.done(*receive)) return receive;
      if (const Action send = counterpart(*receive); !at_.done(send)) return send;
    }
    return at_.missing_here(action);
  }

  /// The receive of what another micro-batch has sent from the slot that the action fills, if that is to come yet.
  std::optional<Action> not_taken(const Action& of) const {
    const bool forward = of.kind == ActionKind::forward || of.kind == ActionKind::receive_forward;
    if (!slots_ || !(forward || gives_gradient(of.kind) || of.kind == ActionKind::receive_backward)) return {};
    const ActionKind kind = forward ? ActionKind::send_forward : ActionKind::send_backward;
    for (int32_t other = of.micro_batch % *slots_; other < at_.schedule.micro_batches; other += *slots_) {
      const Action send{kind, of.stage, other};
      if (other != of.micro_batch && at_.done(send) && !at_.done(counterpart(send))) return counterpart(send);
    }
    return {};
  }

  Standing at_;
  const std::optional<int32_t> slots_;
  std::set<std::pair<ActionKind, Stage>> receiving_;
};

/// Lists of computations alone: what one makes for another rank is sent behind it.
class Implied {
 public:
  Implied(const PipelineSchedule& schedule, const Transport& transport) : at_(schedule), transport_(transport) {
    at_.skip_idle();
    owing_.resize(schedule.ranks.size());
    for (const std::vector<Action>& actions : schedule.ranks)
      for (const Action& action : actions)
        if (const auto receive = receive_for(action, at_.rank_of_stage)) edge_of(*receive).expected.push_back(*receive);
  }

  std::vector<Wait> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < at_.next.size(); ++rank) moved |= go_on(rank);
    }
    std::vector<Wait> waits;
    for (size_t rank = 0; rank < at_.next.size(); ++rank) {
      if (!owing_[rank] && at_.at_end(rank)) continue;
      // A rank that cannot send stands at what it has computed last.
      const size_t place = owing_[rank] ? at_.next[rank] - 1 : at_.next[rank];
      const Action needed = owing_[rank] ? counterpart(*owing_[rank]) : *awaited(rank);
      waits.push_back({static_cast<int>(rank), place, needed, at_.rank_of_stage[needed.stage]});
    }
    return waits;
  }

 private:
  struct Edge {
    std::vector<Action> expected;  // receives, in the order of their readers
    size_t consumed = 0;
    std::set<Action> under_way;  // sends that took a slot
    std::set<Action> arrived;    // receives
  };

  Edge& edge_of(const Action& receive) { return edges_[{receive.kind, receive.stage}]; }

  bool go_on(size_t rank) {
    bool moved = false;
    for (;;) {
      if (owing_[rank] && !send(rank)) return moved;
      if (at_.at_end(rank) || awaited(rank)) return moved;
      const Action action = at_.action(rank);
      if (const auto receive = receive_for(action, at_.rank_of_stage)) ++edge_of(*receive).consumed;
      at_.step(rank);
      if (const auto message = message_of(action, at_.rank_of_stage)) owing_[rank] = message->send;
      moved = true;
    }
  }

  /// What the rank's next computation waits for.
  std::optional<Action> awaited(size_t rank) {
    const Action& action = at_.action(rank);
    if (const auto receive = receive_for(action, at_.rank_of_stage)) {
      Edge& edge = edge_of(*receive);
      deliver(edge);
      if (!edge.arrived.contains(*receive)) return counterpart(*receive);
    }
    return at_.missing_here(action);
  }

  bool send(size_t rank) {
    const Action receive = counterpart(*owing_[rank]);
    Edge& edge = edge_of(receive);
    deliver(edge);
    if (transport_.send_slots == 0) {
      if (!is_posted(edge, receive)) return false;
      edge.arrived.insert(receive);
    } else {
      if (static_cast<int32_t>(edge.under_way.size()) == transport_.send_slots) return false;
      edge.under_way.insert(receive);
    }
    owing_[rank].reset();
    return true;
  }

  void deliver(Edge& edge) {
    for (auto one = edge.under_way.begin(); one != edge.under_way.end();) {
      if (!is_posted(edge, *one)) {
        ++one;
        continue;
      }
      edge.arrived.insert(*one);
      one = edge.under_way.erase(one);
    }
  }

  bool is_posted(const Edge& edge, const Action& receive) const {
    const auto place = std::ranges::find(edge.expected, receive) - edge.expected.begin();
    if (place < static_cast<int64_t>(edge.consumed) + transport_.posted_receives) return true;
    const size_t reader = at_.rank_of_stage[receive.stage];
    return !owing_[reader] && !at_.at_end(reader) && receive_for(at_.action(reader), at_.rank_of_stage) == receive;
  }

  Standing at_;
  const Transport transport_;
  std::vector<std::optional<Action>> owing_;  // by rank: the send that is still to be made
  std::map<std::pair<ActionKind, Stage>, Edge> edges_;
};

}  // namespace

std::vector<Wait> find_deadlock(const PipelineSchedule& schedule, const Transport& transport) {
  return schedule.has_communication() ? Rendezvous(schedule).run() : Implied(schedule, transport).run();
}

std::vector<Wait> find_deadlock_in_slots(const PipelineSchedule& schedule, int32_t slots) {
  return Rendezvous(schedule, slots).run();
}

int32_t least_slots(const PipelineSchedule& schedule) {
  int32_t too_few = 0, enough = std::max(1, schedule.micro_batches);
  if (!find_deadlock(schedule, {1, enough}).empty()) return 0;
  while (too_few + 1 < enough) {
    const int32_t middle = too_few + (enough - too_few) / 2;
    (find_deadlock(schedule, {1, middle}).empty() ? enough : too_few) = middle;
  }
  return enough;
}

std::string describe_deadlock(const PipelineSchedule& schedule, const std::vector<Wait>& waits) {
  // From any rank that waits, the one it waits for waits too: after as many steps one is met again.
  const auto wait_of = [&](int rank) { return *std::ranges::find(waits, rank, &Wait::rank); };
  std::vector<int> way{waits.front().rank};
  for (int on = waits.front().on; std::ranges::find(way, on) == way.end(); on = wait_of(on).on) way.push_back(on);
  const int first = wait_of(way.back()).on;
  way.erase(way.begin(), std::ranges::find(way, first));
  std::string text;
  for (const int rank : way) {
    const Wait wait = wait_of(rank);
    text += fmt::format("{}rank {} at {} waits for {} of rank {}", text.empty() ? "" : "\n", rank,
                        to_text(schedule.ranks[rank][wait.at]), to_text(wait.awaited), wait.on);
  }
  return text;
}

std::vector<std::vector<Action>> steps_of(const PipelineSchedule& schedule) {
  Standing at(schedule);
  at.skip_idle();
  const auto ready = [&](const Action& action) {
    if (is_receive(action.kind)) return at.done(counterpart(action));
    if (const auto receive = receive_for(action, at.rank_of_stage)) {
      if (schedule.has_communication()) return at.done(*receive);
      // What the message is made of: the computation of the stage beside it.
      const Action send = counterpart(*receive);
      const bool made = send.kind == ActionKind::send_forward
                            ? at.done({ActionKind::forward, send.stage, send.micro_batch})
                            : at.done({ActionKind::backward, send.stage, send.micro_batch}) ||
                                  at.done({ActionKind::input_gradient, send.stage, send.micro_batch});
      if (!made) return false;
    }
    return !at.missing_here(action);
  };
  std::vector<std::vector<Action>> steps;
  for (bool moved = true; moved;) {
    moved = false;
    std::vector<Action> step(schedule.ranks.size());
    for (int look = 0; look < 2; ++look)  // what ranks behind it have done in this step frees a rank too
      for (size_t rank = 0; rank < step.size(); ++rank) {
        if (step[rank].kind != ActionKind::idle || at.at_end(rank) || !ready(at.action(rank))) continue;
        step[rank] = at.action(rank);
        at.step(rank);
        moved = true;
      }
    if (moved) steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace mesh
