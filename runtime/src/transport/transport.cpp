#include "transport/transport.h"

#include <algorithm>
#include <utility>

#include "meshrt/poll.h"
#include "meshrt/profile.h"
#include "transport/progress_thread.h"

namespace meshrt {

constinit thread_local Transport* detail::pending = nullptr;

void detail::advance_pending() { pending->poll(); }

/// What the rank's own thread does with the queues, while a thread for progress keeps off.
class Transport::Turn {
 public:
  explicit Turn(Transport& transport) : transport_(transport) {
    if (transport.progress_thread_) transport.progress_thread_->begin_turn();
  }
  ~Turn() {
    if (transport_.progress_thread_) transport_.progress_thread_->end_turn(!transport_.pending_.empty());
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Transport& transport_;
};

Transport::~Transport() { drop_calls(); }

void Transport::set_progress_thread(ProgressThread* thread) {
  progress_thread_ = thread;
  detail::pending = thread || pending_.empty() ? nullptr : this;
}

void Transport::drop_calls() {
  pending_.clear();
  queues_.clear();
  if (detail::pending == this) detail::pending = nullptr;
}

Transport::Queue& Transport::add_queue(const Group& group) {
  if (queues_.size() <= static_cast<size_t>(group.id)) queues_.resize(group.id + 1);
  auto& queue = queues_[group.id];
  queue = std::make_unique<Queue>();
  queue->group = &group;
  grow(*queue);
  return *queue;
}

// Twice the room, from max_pending on; calls under way stay where they lie.
void Transport::grow(Queue& queue) {
  std::vector<std::unique_ptr<Pending>> before(std::max<size_t>(max_pending, 2 * queue.calls.size()));
  queue.calls.swap(before);
  for (uint32_t s = queue.finished + 1; s != queue.started + 1; ++s)
    queue.calls[s & (queue.calls.size() - 1)] = std::move(before[s & (before.size() - 1)]);
  for (auto& place : queue.calls)
    if (!place) place = std::make_unique<Pending>(queue.finished);
}

namespace {

/// What a call does, and after that what this member does by itself.
Task with_own_work(Task task, const Call& call) {
  co_await task;
  for (int64_t at = 0; at < call.own_bytes; at += bytes_between_pauses) {
    call.then(at, std::min(at + bytes_between_pauses, call.own_bytes));
    co_await Pause();
  }
}

}  // namespace

Ticket Transport::start(Queue& queue, Call& call, Keep keep) {
  if (queue.started - queue.finished == queue.calls.size()) grow(queue);
  const bool alone = !progress_thread_ || !progress_thread_->runs();
  if (queue.idle()) {
    pending_.push_back(&queue);
    if (alone) detail::pending = this;
  }
  const uint32_t sequence = ++queue.started;
  Pending& pending = queue.at(sequence);
  if (keep == Keep::yes) pending.kept = std::move(call);
  pending.call = keep == Keep::yes ? &pending.kept : &call;
  pending.call->sequence = sequence;
  pending.head.set(sequence);
  pending.task = task_of(*queue.group, *pending.call, pending.head);
  if (pending.call->then) pending.task = with_own_work(std::move(pending.task), *pending.call);
  advance(queue, alone ? queue.finished + 1 : sequence);  // what was started before is the other thread's
  return {queue.group->id, sequence};
}

namespace {

Ticket start_alone(const Call& call) {
  run_alone(call);
  call.do_own_work();
  call.end();
  return {};
}

}  // namespace

Ticket Transport::start(const Group& group, Call& call, Keep keep) {
  const Timed timed(&StepProfile::collectives);
  if (call.members == 1) return start_alone(call);
  const Turn turn(*this);
  return start(queue_of(group), call, keep);
}

Ticket Transport::start(const Group& group, Call& call) { return start(group, call, Keep::no); }

Ticket Transport::start(const Group& group, Call&& call) { return start(group, call, Keep::yes); }

void Transport::run(const Group& group, Call& call) {
  const Timed timed(&StepProfile::collectives);
  if (call.members == 1) {
    start_alone(call);
    return;
  }
  const Turn turn(*this);
  if (run_straight(group, call)) return;
  Queue& queue = queue_of(group);
  wait(queue, start(queue, call, Keep::no));
}

bool Transport::run_straight(const Group& group, Call& call) {
  if (!pending_.empty()) return false;
  Queue& queue = queue_of(group);
  call.sequence = queue.started + 1;
  if (!run_at_once(group, call)) return false;
  queue.started = call.sequence;
  call.do_own_work();
  call.end();
  queue.finished = call.sequence;
  return true;
}

void Transport::advance(Queue& queue, uint32_t first, GivesWay gives_way) {
  for (uint32_t s = first; !reached(s, queue.end_of_announced()) && !gives_way; ++s) {
    Pending& pending = queue.at(s);
    if (!pending.task.advance(gives_way) || s != queue.finished + 1) continue;
    pending.task = {};
    pending.call->end();
    queue.finished.store(s, std::memory_order_release);
  }
  if (!queue.idle()) return;
  std::erase(pending_, &queue);
  if (pending_.empty()) detail::pending = nullptr;
}

void Transport::advance() {
  if (progress_thread_ && progress_thread_->runs()) return;
  const Timed timed(&StepProfile::collectives);
  const Turn turn(*this);
  advance_all();
}

void Transport::poll() {
  constexpr std::chrono::microseconds interval(20);
  const auto now = std::chrono::steady_clock::now();
  if (now - polled_ < interval) return;
  polled_ = now;
  StepProfile* const profile = thread_profile();
  const double before = profile ? profile->collectives : 0;
  advance();
  if (profile) profile->polled += profile->collectives - before;
}

bool Transport::advance_all(GivesWay gives_way) {
  for (size_t i = pending_.size(); i-- > 0 && !gives_way;)  // what is done drops out
    advance(*pending_[i], pending_[i]->finished + 1, gives_way);
  return !pending_.empty();
}

bool Transport::can_go_on() const {
  for (Queue* const queue : pending_)
    for (uint32_t s = queue->finished + 1; s != queue->end_of_announced(); ++s)
      if (queue->at(s).task.can_go_on()) return true;
  return false;
}

bool Transport::finished(Ticket ticket) const {
  return ticket.group < 0 || reached(queues_[ticket.group]->finished.load(std::memory_order_acquire), ticket.sequence);
}

const Call& Transport::call_of(Ticket ticket) const { return *queues_[ticket.group]->at(ticket.sequence).call; }

void Transport::wait(Ticket ticket) {
  if (finished(ticket)) return;
  const Timed timed(&StepProfile::collectives);
  const Turn turn(*this);
  wait(*queues_[ticket.group], ticket);
}

void Transport::wait(Queue& queue, Ticket ticket) {
  for (advance_all(); !finished(ticket); advance_all()) {
    Condition& awaited = queue.at(queue.finished + 1).task.awaited();
    wait_until(
        policy(*queue.group), aborted(), [&] { return can_go_on(); }, [&] { awaited.look(); },
        [&] { return awaited.late(); });
  }
}

}  // namespace meshrt
