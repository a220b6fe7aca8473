#include "transport/transport.h"

#include "meshrt/profile.h"

namespace meshrt {

Transport::Queue& Transport::queue_of(const Group& group) {
  if (queues_.size() <= static_cast<size_t>(group.id)) queues_.resize(group.id + 1);
  auto& queue = queues_[group.id];
  if (!queue) {
    queue = std::make_unique<Queue>();
    queue->group = &group;
  }
  return *queue;
}

void Transport::finish_oldest(Queue& queue) {
  const uint32_t sequence = queue.finished + 1;
  finish(*queue.group, queue.calls[sequence % max_pending]);
  queue.finished = sequence;
}

Ticket Transport::start(const Group& group, const Call& call) {
  const Timed timed(&StepProfile::collectives);
  if (group.size() == 1) {
    run_alone(call);
    return {};
  }
  Queue& queue = queue_of(group);
  if (queue.started - queue.finished == max_pending) finish_oldest(queue);
  const uint32_t sequence = ++queue.started;
  Call& kept = queue.calls[sequence % max_pending];
  kept = call;
  kept.sequence = sequence;
  post(group, kept);
  return {group.id, sequence};
}

void Transport::wait(Ticket ticket) {
  if (ticket.group < 0) return;
  const Timed timed(&StepProfile::collectives);
  Queue& queue = *queues_[ticket.group];
  while (!reached(queue.finished, ticket.sequence)) finish_oldest(queue);
}

}  // namespace meshrt
