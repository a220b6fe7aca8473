#include "launch/own_ranks.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "meshrt/failure.h"
#include "meshrt/launch.h"
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
  for (const Process& process : processes_) watched.push_back({process.control.get(), POLLIN, 0});
}

void OwnRanks::advance() {
  // Messages first: a rank that fails says why before it ends.
  for (Process& process : processes_) read_control(process);
  reap();
}

void OwnRanks::send(int rank, const Message& message) {
  for (const Process& process : processes_)
    if (process.control.get() >= 0 && (rank == every_rank || rank == process.rank))
      send_message(process.control.get(), message);
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
    if (message.kind == MessageKind::failed) flush();  // what it printed stands before why it failed
    events_.received(process.rank, message);
  }
}

}  // namespace meshrt
