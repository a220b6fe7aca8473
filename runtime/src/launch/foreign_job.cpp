#include "launch/foreign_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "control/packing.h"
#include "launch/adopted_ranks.h"
#include "launch/agent.h"
#include "launch/door.h"
#include "launch/gathering.h"
#include "meshrt/failure.h"
#include "system/host_name.h"
#include "system/tell.h"

namespace meshrt {

namespace {

// Until all ranks must have come; MESHRT_CONNECT_TIMEOUT in seconds.
std::chrono::milliseconds connect_limit() {
  return std::chrono::seconds(number_from_environment("MESHRT_CONNECT_TIMEOUT").value_or(60));
}

// What a service must not hold open: the ends of pipes, sockets of the launcher that wait for them to close.
void close_all_but(const std::vector<int>& kept) {
  std::vector<int> others;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    if (const int number = std::atoi(entry.path().filename().c_str());
        number > 2 && std::ranges::find(kept, number) == kept.end())
      others.push_back(number);
  std::ranges::for_each(others, close);
}

// A process beside this rank, which learns of the meeting when there is one.
class Service {
 public:
  /// Forks; there `run` gets the meeting, and its result ends the process. `kept` stay open.
  Service(std::vector<int> kept, const std::function<void(const Meeting&)>& run);
  void begin(const Meeting& meeting) const;

 private:
  Descriptor to_it_;
};

std::string read_all(int pipe) {
  std::string text;
  std::array<char, 4096> room;
  for (ssize_t length = 0; (length = read(pipe, room.data(), room.size())) != 0;) {
    if (length > 0) text.append(room.data(), length);
    else if (errno != EINTR) break;
  }
  return text;
}

Service::Service(std::vector<int> kept, const std::function<void(const Meeting&)>& run) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Failure(Cause::environment, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const Descriptor theirs(ends[0]);
  to_it_ = Descriptor(ends[1]);
  const pid_t child = fork();
  if (child < 0) throw Failure(Cause::environment, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child > 0) return;
  setpgid(0, 0);  // the job's signals are for its ranks; it ends when they have
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  kept.push_back(theirs.get());
  close_all_but(kept);
  try {
    const std::string text = read_all(theirs.get());
    if (text.empty()) _exit(0);  // the rank has ended, and will have said why
    Unpacker from(text);
    const int ranks = from.number();
    Meeting meeting = from_word(from.text());
    meeting.ranks = ranks;
    run(meeting);
  } catch (const Failure& failure) {
    tell("error: {}: {}\n", host_name(), failure.what());
  } catch (const std::exception& error) {
    tell("internal error: {}: {}\n", host_name(), error.what());
  }
  std::fflush(stderr);
  _exit(3);
}

void Service::begin(const Meeting& meeting) const {
  Packer to;
  to.number(meeting.ranks);
  to.text(as_word(meeting));
  const std::string text = to.bytes();
  if (write(to_it_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Failure(Cause::environment, "the launcher of this host has ended at once");
}

// What only ranks of this job know.
std::string word_of(const Meeting& meeting) { return Token::from(as_word(meeting)).text(); }

void serve_host(Descriptor listener, const Meeting& meeting) {
  auto link = enter(meeting.coordinator, meeting.secret, {-1, host_name()}, connect_limit());
  int code = 0;
  bool begun = false;
  {
    Agent agent(
        std::move(link),
        [&](HostEvents& events) {
          return std::make_unique<AdoptedRanks>(std::move(listener), word_of(meeting), events);
        },
        nullptr);
    code = agent.run();
    begun = agent.has_begun();
  }
  if (code != 0 && begun)
    throw Failure(Cause::environment, "the coordinator of the job, beside rank 0, is gone: the ranks here are stopped");
  _exit(code);
}

std::string chosen_address() {
  const char* chosen = std::getenv("MESHRT_ADDRESS");
  return chosen ? chosen : "";
}

// Where rank 0 listens. A job of one host is on no network, unless an address is asked for, as where ranks are in
// containers with networks of their own.
std::vector<std::string> listening_hosts(Bootstrap& bootstrap) {
  if (const std::string chosen = chosen_address(); !chosen.empty()) return addresses_as(chosen);
  if (bootstrap.one_host()) return {door_name(bootstrap.job())};
  if (const auto given = bootstrap.given_address()) return addresses_as(given->host);
  constexpr size_t most = 8;
  std::vector<std::string> hosts = own_addresses();
  hosts.resize(std::min(hosts.size(), most));
  return hosts;
}

// Where the others look for it.
std::vector<Address> offered_addresses(std::vector<std::string> hosts, int port) {
  if (const std::string chosen = chosen_address(); !chosen.empty()) hosts = {chosen};
  std::vector<Address> addresses;
  for (const std::string& host : hosts) addresses.push_back({host, host.starts_with('@') ? 0 : port});
  return addresses;
}

}  // namespace

Descriptor join_foreign_job(Bootstrap& bootstrap) {
  // The launcher gives a rank its CPUs; libraries keep to one of them, as under meshrun.
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) setenv(name, "1", 0);
  const std::string name = fmt::format("meshrt-{}-{}", geteuid(), bootstrap.job());
  std::vector<Service> services;
  Meeting mine{{}, Token(), 0};
  if (bootstrap.rank() == 0) {
    mine.secret = bootstrap.given_secret().value_or(Token::draw());
    const std::vector<std::string> hosts = listening_hosts(bootstrap);
    const auto given = bootstrap.given_address();
    auto door = std::make_unique<Door>(hosts, given ? given->port : 0, mine.secret);
    mine.coordinator = offered_addresses(hosts, door->port());
    std::vector<int> kept;
    for (const Descriptor& listener : door->listeners()) kept.push_back(listener.get());
    services.emplace_back(kept,
                          [&](const Meeting& meeting) { _exit(coordinate(*door, meeting.ranks, connect_limit())); });
  }
  if (Descriptor listener = claim_name(name); listener.get() >= 0)
    services.emplace_back(std::vector{listener.get()},
                          [&](const Meeting& meeting) { serve_host(std::move(listener), meeting); });
  const Meeting meeting = bootstrap.meet(mine);
  for (const Service& service : services) service.begin(meeting);
  services.clear();  // closes their pipes: they have all there is
  return call_name(name, bootstrap.rank(), word_of(meeting), connect_limit());
}

}  // namespace meshrt
