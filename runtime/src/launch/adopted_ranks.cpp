#include "launch/adopted_ranks.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "launch/cpus.h"
#include "launch/local_name.h"
#include "meshrt/failure.h"

namespace meshrt {

Descriptor claim_name(const std::string& name) { return listen_under(name, SOCK_SEQPACKET); }

Descriptor call_name(const std::string& name, int rank, const std::string& word, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (Descriptor socket = call_once(name, SOCK_SEQPACKET); socket.get() >= 0) {
      send_message(socket.get(), {MessageKind::entered, rank, word + cpu_list_text(cpus_in_mask())});
      return socket;
    }
    if (std::chrono::steady_clock::now() > deadline)
      throw Failure(Cause::environment,
                    fmt::format("rank {} does not find the launcher of this host: {}", rank, std::strerror(errno)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

AdoptedRanks::~AdoptedRanks() {
  // Ranks that wait for the job to begin learn from their connection that it will not.
  if (listener_.get() < 0) AdoptedRanks::clear();
  finish_flights();
}

void AdoptedRanks::begin(const HostJob& job) {
  listener_ = Descriptor();
  callers_.clear();
  const Memory memory(job);
  for (const Process& process : processes_) memory.welcome(job, process, cpus());
}

void AdoptedRanks::watch(std::vector<pollfd>& watched) const {
  OwnRanks::watch(watched);
  if (std::chrono::steady_clock::now() >= rests_until_) watched.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) watched.push_back({caller.socket.get(), POLLIN, 0});
}

void AdoptedRanks::advance() {
  if (listener_.get() >= 0) answer_calls();
  OwnRanks::advance();
}

void AdoptedRanks::answer_calls() {
  constexpr auto rest = std::chrono::milliseconds(100);  // when this process has no descriptor left
  for (;;) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0 && errno != EAGAIN) rests_until_ = std::chrono::steady_clock::now() + rest;
    if (socket.get() < 0) break;
    const ucred peer = peer_of(socket.get());
    if (peer.uid != geteuid()) continue;
    Descriptor process(peer.pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)) : -1);
    callers_.push_back({std::move(socket), std::move(process), peer.pid});
  }
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    Message message;
    const Received received = receive_message(caller->socket.get(), message);
    if (received == Received::nothing) {
      ++caller;
      continue;
    }
    if (received == Received::message && message.kind == MessageKind::entered && message.bytes.starts_with(word_))
      take_in(*caller, message);
    caller = callers_.erase(caller);
  }
}

void AdoptedRanks::take_in(Caller& caller, const Message& entered) {
  Process process;
  process.rank = entered.value;
  process.pid = caller.pid;
  process.control = std::move(caller.socket);
  processes_.push_back(std::move(process));
  identities_.push_back(std::move(caller.process));
  for (const int cpu : parse_cpu_list(entered.bytes.substr(word_.size())).value_or(std::vector<int>()))
    cpus_.insert(cpu);
  events_.entered(entered.value, caller.pid);
}

// This process's own mask says nothing: it was forked from one of the ranks, which may be bound to one CPU.
int AdoptedRanks::cpus() const {
  const int in_masks = std::max(1, static_cast<int>(cpus_.size()));
  return std::min(in_masks, cpu_quota().value_or(in_masks));
}

void AdoptedRanks::signal(int number) {
  for (size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i].running && identities_[i].get() >= 0)
      syscall(SYS_pidfd_send_signal, identities_[i].get(), number, nullptr, 0);
}

void AdoptedRanks::clear() { signal(SIGKILL); }

// How a process ended is told to its parent alone; that it has, its socket shows.
void AdoptedRanks::reap() {
  for (Process& process : processes_) {
    if (!process.running || process.control.get() >= 0) continue;
    process.running = false;
    events_.ended(process.rank, unknown_status);
  }
}

}  // namespace meshrt
