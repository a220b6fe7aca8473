#include "launch/own_ranks.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "report/flight_place.h"
#include "transport/memory.h"
#include "transport/segment.h"

namespace meshrt {

namespace {

Descriptor memory_file(const char* name, size_t bytes) {
  Descriptor file(memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw Failure(Cause::environment, fmt::format("cannot make shared memory for the job: {}", std::strerror(errno)));
  return file;
}

}  // namespace

OwnRanks::Memory::Memory(const HostJob& job)
    : segment_(memory_file("meshrt-segment",
                           round_to_huge(segment_bytes(static_cast<int>(job.placement.ranks_of(job.host).size()))))),
      arena_(memory_file("meshrt-arena", 0)) {}

void OwnRanks::Memory::welcome(const HostJob& job, const Process& process, int cpus) const {
  Welcome welcome;
  welcome.rank = process.rank;
  welcome.cpus = cpus;
  welcome.carrier = job.carrier;
  welcome.placement = job.placement;
  send_message(process.control.get(), {MessageKind::welcome, 0, pack(welcome)},
               job.carrier == Carrier::ucx ? std::vector<int>{} : std::vector<int>{segment_.get(), arena_.get()});
}

void OwnRanks::watch(std::vector<pollfd>& watched) const {
  for (const Process& process : processes_)
    watched.push_back(
        {process.control.get(), static_cast<short>(process.outbox.empty() ? POLLIN : POLLIN | POLLOUT), 0});
}

void OwnRanks::advance() {
  // Messages first: a rank that fails says why before it ends.
  for (Process& process : processes_) read_control(process);
  reap();
  for (Process& process : processes_) write_control(process);
}

void OwnRanks::send(int rank, const Message& message) {
  for (Process& process : processes_)
    if (process.control.get() >= 0 && (rank == every_rank || rank == process.rank))
      process.outbox.send(process.control.get(), message);
}

// A rank that takes nothing for long is stopped, and what it has not taken must not grow for ever.
void OwnRanks::write_control(Process& process) {
  if (process.control.get() < 0 || process.outbox.empty()) return;
  process.outbox.flush(process.control.get());
  if (!process.outbox.overflown()) return;
  process.control = Descriptor();
  events_.received(process.rank, {MessageKind::failed, static_cast<int32_t>(Cause::timeout),
                                  fmt::format("it takes nothing of what its launcher has for it, more than {} MiB",
                                              Outbox::most_waiting >> 20)});
}

// A rank that was killed a moment ago may still be at its last system call, and one behind a shell script is no child
// of this process; when its socket is closed it is gone. What it has said of its recorder may be unread until then.
void OwnRanks::hear_out(Process& process, std::chrono::steady_clock::time_point limit) {
  Message message;
  while (process.control.get() >= 0) {
    const Received received = receive_message(process.control.get(), message);
    if (received == Received::closed) process.control = Descriptor();
    if (received == Received::message) take_recorder(process, message);
    if (received != Received::nothing) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd readable{process.control.get(), POLLIN, 0};
    poll(&readable, 1, static_cast<int>(left.count()));
  }
}

void OwnRanks::finish_flights() {
  constexpr auto longest = std::chrono::milliseconds(500);  // whoever else holds a socket does not hold the job
  const auto limit = std::chrono::steady_clock::now() + longest;
  for (Process& process : processes_) {
    hear_out(process, limit);
    if (!process.recorder.empty()) finish_flight(process.recorder);
  }
}

void OwnRanks::take_recorder(Process& process, const Message& message) {
  if (message.kind == MessageKind::beat && !message.bytes.empty()) process.recorder = message.bytes;
}

bool OwnRanks::any_running() const { return std::ranges::any_of(processes_, &Process::running); }

void OwnRanks::read_control(Process& process) {
  Message message;
  while (process.control.get() >= 0) {
    const Received received = receive_message(process.control.get(), message);
    if (received == Received::nothing) return;
    if (received == Received::closed) {
      process.control = Descriptor();
      return;
    }
    take_recorder(process, message);
    if (message.kind == MessageKind::failed) flush();  // what it printed stands before why it failed
    events_.received(process.rank, message);
  }
}

}  // namespace meshrt
