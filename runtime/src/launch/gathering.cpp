#include "launch/gathering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launch/coordinator.h"
#include "launch/remote_host.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

struct Guest {
  Visitor visitor;
  std::vector<std::pair<int, int>> processes;  // rank, process
};

class Gathering {
 public:
  Gathering(Door& door, int ranks) : door_(door), host_of_rank_(ranks, -1) {}

  void wait(std::chrono::milliseconds limit) {
    const auto deadline = Link::Clock::now() + limit;
    while (std::ranges::count(host_of_rank_, -1) > 0) {
      std::vector<pollfd> watched;
      door_.watch(watched);
      for (const Guest& guest : guests_) watched.push_back(guest.visitor.link->watched());
      poll(watched.data(), watched.size(), 100);
      for (Visitor& visitor : door_.admit()) guests_.push_back({std::move(visitor), {}});
      for (Guest& guest : guests_) listen_to(guest);
      if (Link::Clock::now() > deadline) tell_missing(limit);
    }
  }

  int coordinate() {
    // Hosts in the order of their first ranks.
    for (Guest& guest : guests_) std::ranges::sort(guest.processes);
    std::erase_if(guests_, [](const Guest& guest) { return guest.processes.empty(); });
    std::ranges::sort(guests_, {}, [](const Guest& guest) { return guest.processes.front().first; });
    HostJob job;
    job.placement.host_of_rank = host_of_rank_;
    for (size_t host = 0; host < guests_.size(); ++host) {
      job.placement.hosts.push_back(guests_[host].visitor.hello.name);
      for (const auto& [rank, pid] : guests_[host].processes) job.placement.host_of_rank[rank] = static_cast<int>(host);
    }
    job.carrier = choose_carrier("", job.placement.one_host());
    Coordinator coordinator(job.placement, nullptr);
    for (; job.host < static_cast<int>(guests_.size()); ++job.host) {
      Guest& guest = guests_[job.host];
      coordinator.add(std::make_unique<RemoteHost>(std::move(guest.visitor.link), job, coordinator));
      for (const auto& [rank, pid] : guest.processes) coordinator.entered(rank, pid);
    }
    return coordinator.run();
  }

 private:
  void listen_to(Guest& guest) {
    Link& link = *guest.visitor.link;
    link.advance();
    Message message;
    for (int rank = 0;;) {
      const Received received = link.receive(rank, message);
      if (received == Received::nothing) return;
      if (received == Received::closed)
        throw Failure(Cause::environment,
                      fmt::format("host {} has left before all ranks had come{}{}", guest.visitor.hello.name,
                                  link.fault().empty() ? "" : ": ", link.fault()));
      if (message.kind == MessageKind::entered) take_in(guest, rank, message.value);
      if (message.kind == MessageKind::ended)
        throw Failure(Cause::environment,
                      fmt::format("rank {} on {} has ended before all ranks had come", rank, guest.visitor.hello.name));
    }
  }

  void take_in(Guest& guest, int rank, int pid) {
    if (rank < 0 || rank >= static_cast<int>(host_of_rank_.size()) || host_of_rank_[rank] >= 0)
      throw Failure(Cause::environment,
                    fmt::format("a second rank {} of {} has come from {}: does another job use this one's name?", rank,
                                host_of_rank_.size(), guest.visitor.hello.name));
    host_of_rank_[rank] = 0;  // which one is known when all have come
    guest.processes.emplace_back(rank, pid);
  }

  [[noreturn]] void tell_missing(std::chrono::milliseconds limit) const {
    constexpr size_t most = 16;
    std::vector<int> missing;
    for (size_t rank = 0; rank < host_of_rank_.size() && missing.size() < most; ++rank)
      if (host_of_rank_[rank] < 0) missing.push_back(static_cast<int>(rank));
    throw Failure(Cause::environment,
                  fmt::format("{} of {} ranks have not come{} within {:g} s, of them {}; set "
                              "MESHRT_CONNECT_TIMEOUT to more seconds if they only need longer",
                              std::ranges::count(host_of_rank_, -1), host_of_rank_.size(),
                              door_.port() > 0 ? fmt::format(" to port {}", door_.port()) : "",
                              std::chrono::duration<double>(limit).count(), fmt::join(missing, ", ")));
  }

  Door& door_;
  std::vector<Guest> guests_;
  std::vector<int> host_of_rank_;  // -1: has not come
};

}  // namespace

int coordinate(Door& door, int ranks, std::chrono::milliseconds limit) {
  Gathering gathering(door, ranks);
  gathering.wait(limit);
  door.close();
  return gathering.coordinate();
}

}  // namespace meshrt
