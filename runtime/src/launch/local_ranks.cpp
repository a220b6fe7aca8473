#include "launch/local_ranks.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "launch/child.h"
#include "launch/cpus.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "meshrt/threads.h"

namespace meshrt {

void LocalRanks::begin(const HostJob& job) {
  output_ = TaggedOutput(job.tag_output, job.log_folder);
  const std::vector<int> ranks = job.placement.ranks_of(job.host);
  const Memory memory(job);
  const std::vector<int> cpus = spread(cores_of(cpus_in_mask()));
  const auto threads = static_cast<std::ptrdiff_t>(threads_of_rank());
  const bool pin = binds(job.binding, ranks.size() * static_cast<size_t>(threads), cpu_room());
  processes_.reserve(ranks.size());
  for (const int rank : ranks) {
    const auto first = cpus.begin() + threads * std::ssize(processes_);
    start(job, rank, pin ? std::vector<int>(first, first + threads) : std::vector<int>());
    memory.welcome(job, processes_.back(), allowed_cpus());
    events_.entered(rank, processes_.back().pid);
  }
}

LocalRanks::~LocalRanks() {
  signal(SIGKILL);  // only with an exception in flight is anybody left
  for (const Process& process : processes_)
    if (process.running) waitpid(process.pid, nullptr, 0);
  output_.finish();
  finish_flights();
}

void LocalRanks::start(const HostJob& job, int rank, std::vector<int> cpus) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Failure(Cause::environment, fmt::format("cannot make a socket for rank {}: {}", rank, std::strerror(errno)));
  const Descriptor theirs(ends[1]);
  Process process;
  process.rank = rank;
  process.control = Descriptor(ends[0]);
  ChildStart start;
  start.rank = rank;
  start.ranks = job.placement.ranks();
  start.control = theirs.get();
  start.cpus = std::move(cpus);
  Descriptor out, error;
  if (output_.in_use()) {
    out = output_.add(rank, STDOUT_FILENO);
    error = output_.add(rank, STDERR_FILENO);
    start.output = out.get();
    start.error = error.get();
  }
  process.pid = start_child(job.command, start);
  processes_.push_back(std::move(process));
}

void LocalRanks::watch(std::vector<pollfd>& watched) const {
  OwnRanks::watch(watched);
  output_.watch(watched);
}

// A rank that has closed its socket is about to end. A program that starts threads before main takes signals in them,
// so that its end may go unnoticed here.
int LocalRanks::patience() const {
  const bool leaving = std::ranges::any_of(
      processes_, [](const Process& process) { return process.running && process.control.get() < 0; });
  return leaving ? 20 : -1;
}

void LocalRanks::advance() {
  output_.forward();
  OwnRanks::advance();
}

void LocalRanks::signal(int number) {
  for (const Process& process : processes_)
    if (process.running) kill(-process.pid, number);
}

void LocalRanks::clear() {
  for (const Process& process : processes_) kill(-process.pid, SIGKILL);
}

void LocalRanks::flush() {
  output_.forward();
  std::fflush(stdout);
}

void LocalRanks::reap() {
  std::vector<std::pair<int, int>> ended;  // rank, status
  for (Process& process : processes_) {
    int status = 0;
    if (!process.running || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    process.running = false;
    ended.emplace_back(process.rank, status);
  }
  if (ended.empty()) return;
  // Last words, of all: one may have ended because of what another one has just reported.
  for (Process& process : processes_) read_control(process);
  flush();
  for (const auto& [rank, status] : ended) events_.ended(rank, status);
}

}  // namespace meshrt
