#include "launch/adopted_ranks.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "launch/cpus.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

// The first byte 0: a name of the network namespace, not of a file, that goes with its socket.
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

Descriptor packet_socket(int flags) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (socket.get() < 0)
    throw Failure(Cause::environment, fmt::format("cannot make a socket: {}", std::strerror(errno)));
  return socket;
}

// The process at the other end; none of another user.
ucred peer_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) peer.uid = static_cast<uid_t>(-1);
  return peer;
}

}  // namespace

Descriptor claim_name(const std::string& name) {
  Descriptor socket = packet_socket(SOCK_NONBLOCK);
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == EADDRINUSE) return {};
    throw Failure(Cause::environment, fmt::format("cannot name a socket: {}", std::strerror(errno)));
  }
  if (listen(socket.get(), 1024) != 0)
    throw Failure(Cause::environment, fmt::format("cannot listen at a socket: {}", std::strerror(errno)));
  return socket;
}

Descriptor call_name(const std::string& name, int rank, std::chrono::milliseconds limit) {
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    Descriptor socket = packet_socket(0);
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0) {
      if (peer_of(socket.get()).uid != geteuid())
        throw Failure(Cause::environment, "another user of this host has taken the name of this job's socket");
      send_message(socket.get(), {MessageKind::entered, rank, cpu_list_text(cpus_in_mask())});
      return socket;
    }
    if (std::chrono::steady_clock::now() > deadline)
      throw Failure(Cause::environment,
                    fmt::format("rank {} does not find the launcher of this host: {}", rank, std::strerror(errno)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void AdoptedRanks::begin(const HostJob& job) {
  listener_ = Descriptor();
  callers_.clear();
  const Memory memory(job);
  for (const Process& process : processes_) memory.welcome(job, process, cpus());
}

void AdoptedRanks::watch(std::vector<pollfd>& watched) const {
  OwnRanks::watch(watched);
  watched.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) watched.push_back({caller.socket.get(), POLLIN, 0});
}

void AdoptedRanks::advance() {
  if (listener_.get() >= 0) answer_calls();
  OwnRanks::advance();
}

void AdoptedRanks::answer_calls() {
  for (;;) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
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
    if (received == Received::message && message.kind == MessageKind::entered) take_in(*caller, message);
    caller = callers_.erase(caller);
  }
}

void AdoptedRanks::take_in(Caller& caller, const Message& entered) {
  processes_.push_back({entered.value, caller.pid, std::move(caller.socket), true});
  identities_.push_back(std::move(caller.process));
  for (const int cpu : parse_cpu_list(entered.bytes).value_or(std::vector<int>())) cpus_.insert(cpu);
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
