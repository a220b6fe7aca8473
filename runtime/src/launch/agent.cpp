#include "launch/agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "launch/door.h"
#include "launch/local_ranks.h"
#include "meshrt/failure.h"
#include "system/host_name.h"
#include "system/tell.h"

namespace meshrt {

namespace {

// What the launcher wants the ranks to find, and where.
void prepare_process(const HostJob& job) {
  for (const std::string& variable : job.environment)
    if (const size_t equals = variable.find('='); equals != std::string::npos)
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  if (!job.folder.empty() && chdir(job.folder.c_str()) != 0)
    throw Failure(Cause::environment,
                  fmt::format("cannot enter the folder {} of the job: {}; it must be there on every host", job.folder,
                              std::strerror(errno)));
}

}  // namespace

Agent::Agent(std::unique_ptr<Link> link, const std::function<std::unique_ptr<OwnRanks>(HostEvents&)>& make_ranks,
             const Signals* signals)
    : link_(std::move(link)), ranks_(make_ranks(*this)), signals_(signals) {}

int Agent::run() {
  while (!ended_ && !left_alone()) {
    std::vector<pollfd> watched{link_->watched()};
    if (signals_) watched.push_back({signals_->descriptor(), POLLIN, 0});
    ranks_->watch(watched);
    const int patience = ranks_->patience();
    poll(watched.data(), watched.size(), patience < 0 ? 500 : patience);
    link_->advance();
    listen();
    ranks_->advance();
    heed_signals();
    if (begun_ && !ranks_->any_running()) {
      part();
      return 0;
    }
  }
  if (!link_->fault().empty())
    tell("error: host {}: the connection to the coordinator ({}) is ended: {}\n", host_name(), link_->peer(),
         link_->fault());
  return exit_code(Cause::environment);
}

// What asks this host to end asks the whole job. Before it has begun, the agent alone ends, which the coordinator
// notices.
void Agent::heed_signals() {
  if (!signals_) return;
  for (const int signal : signals_->read()) {
    link_->send(every_rank, {MessageKind::signal, signal, {}});
    if (!begun_) ended_ = true;
  }
}

void Agent::listen() {
  Message message;
  for (int rank = 0; link_->receive(rank, message) == Received::message;) {
    if (message.kind == MessageKind::start) try_to_begin(message.bytes);
    else if (message.kind == MessageKind::signal && message.value == SIGKILL) ranks_->clear();
    else if (message.kind == MessageKind::signal) ranks_->signal(message.value);
    else if (message.kind != MessageKind::alive) ranks_->send(rank, message);
  }
}

void Agent::try_to_begin(const std::string& text) {
  if (begun_) return;
  begun_ = true;
  try {
    HostJob job = unpack_host_job(text);
    prepare_process(job);
    if (const std::string own = link_->own_address(); !is_loopback(own) || job.placement.interface.empty()) {
      job.placement.interface = interface_of(own);
      job.placement.address = own;
    }
    ranks_->begin(job);
  } catch (const Failure& failure) {
    link_->send(every_rank, {MessageKind::refused, 0, failure.what()});
    part();
    ended_ = true;
  }
}

// The coordinator has heard all when it hangs up.
void Agent::part() {
  constexpr auto limit = std::chrono::seconds(10);
  for (const auto start = Link::Clock::now(); !left_alone() && Link::Clock::now() - start < limit;) {
    pollfd readable = link_->watched();
    poll(&readable, 1, 100);
    link_->advance();
    Message message;
    for (int rank = 0; link_->receive(rank, message) == Received::message;)
      if (message.kind == MessageKind::signal && message.value == SIGKILL) ranks_->clear();
  }
}

int run_agent(const std::vector<Address>& coordinator, const Secret& secret, int host,
              std::chrono::milliseconds limit) {
  const Signals signals;
  Agent agent(
      enter(coordinator, secret, {host, host_name()}, limit),
      [](HostEvents& events) { return std::make_unique<LocalRanks>(events); }, &signals);
  return agent.run();
}

}  // namespace meshrt
