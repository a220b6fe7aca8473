#include "launch/remote_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "meshrt/failure.h"

namespace meshrt {

RemoteHost::RemoteHost(std::unique_ptr<Link> link, const HostJob& job, HostEvents& events)
    : link_(std::move(link)), host_(job.host), events_(events), running_(job.placement.ranks_of(job.host)) {
  const std::string text = pack(job);
  if (text.size() > Link::longest_message)
    throw Failure(Cause::usage, fmt::format("what host {} is told of the job has {} bytes, {} are the most: are there "
                                            "long variables of -x?",
                                            job.placement.hosts[job.host], text.size(), Link::longest_message));
  link_->send(every_rank, {MessageKind::start, 0, text});
}

void RemoteHost::advance() {
  if (running_.empty() && link_->closed()) return;
  link_->advance();
  Message message;
  int rank = 0;
  for (;;) {
    const Received received = link_->receive(rank, message);
    if (received == Received::nothing) break;
    if (received == Received::closed)
      return lose(link_->fault().empty()
                      ? "its agent has ended, or the connection to it is lost"
                      : fmt::format("the connection to it ({}) is ended: {}", link_->peer(), link_->fault()));
    take(rank, message);
  }
  if (link_->silent())
    lose(fmt::format("nothing was heard of it for {} s", std::chrono::seconds(Link::silence).count()));
}

void RemoteHost::take(int rank, const Message& message) {
  if (message.kind == MessageKind::alive) return;
  if (message.kind == MessageKind::refused) return lose(message.bytes);
  if (message.kind == MessageKind::signal && sigabbrev_np(message.value) == nullptr)
    return lose("its agent tells of a signal that there is not");
  if (message.kind == MessageKind::signal) return events_.asked_to_end(host_, message.value);
  const auto at = std::ranges::find(running_, rank);
  if (at == running_.end()) return lose("its agent speaks for a rank that does not run there");
  if (message.kind == MessageKind::entered) return events_.entered(rank, message.value);
  if (message.kind != MessageKind::ended) return events_.received(rank, message);
  running_.erase(at);
  events_.ended(rank, message.value);
}

void RemoteHost::lose(const std::string& why) {
  link_->close();
  if (!std::exchange(running_, {}).empty()) events_.lost(host_, why);
}

void RemoteHost::clear() { signal(SIGKILL); }

}  // namespace meshrt
