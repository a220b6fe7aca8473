// The launcher of processes: starts the ranks, carries what they exchange, and ends the job as one. The first rank that
// dies or reports a failure decides the message and the exit code; everybody else is asked to end, then killed.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "launch/child.h"
#include "launch/control.h"
#include "launch/cpus.h"
#include "launch/descriptor.h"
#include "launch/tagged_output.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "transport/memory.h"
#include "transport/segment.h"
#include "transport/wait.h"

namespace meshrt {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto patience = std::chrono::milliseconds(200);  // between asking to end and killing

struct Child {
  pid_t pid = 0;
  Descriptor control;
  bool running = true, joined = false, finished = false;
  bool suspects = false;                 // it has reported the death of another rank
  std::optional<std::string> exchanged;  // its part of the exchange under way
};

// Signals as a descriptor, while this lives.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    descriptor_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~Signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  /// True when one of them asks the job to end.
  bool read() const {
    bool end = false;
    for (signalfd_siginfo info; ::read(descriptor(), &info, sizeof info) == sizeof info;)
      end |= info.ssi_signo != SIGCHLD;
    return end;
  }

 private:
  sigset_t before_{};
  Descriptor descriptor_;
};

class Launcher {
 public:
  Launcher(int ranks, const std::vector<std::string>& command, const LaunchOptions& options, bool over_ucx);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  int run();

 private:
  void welcome(int rank, const std::vector<int>& files, int cpus, bool over_ucx) const;
  void read_control(int rank);
  void reap();
  void carry_exchange();
  void fail(int rank, int code, const std::string& what);
  void suspect(int rank, int code, const std::string& what);
  void stop();
  void kill_all(int signal) const;
  bool any_running() const { return std::ranges::any_of(children_, &Child::running); }
  // Ranks that have closed their socket but are not reaped. A program that starts threads before main takes signals in
  // them, so that their end may go unnoticed here.
  bool any_leaving() const {
    return std::ranges::any_of(children_, [](const Child& child) { return child.running && child.control.get() < 0; });
  }
  std::string who(int rank) const { return fmt::format("rank {} (pid {})", rank, children_[rank].pid); }

  Signals signals_;
  TaggedOutput output_;
  std::vector<Child> children_;
  int code_ = 0;
  std::optional<Clock::time_point> stopped_;  // when the ranks were asked to end

  // A rank that cannot reach another one may say so before the other's death is seen here, which is the better message.
  struct Suspicion {
    int rank, code;
    std::string what;
    Clock::time_point since;
  };
  std::optional<Suspicion> suspicion_;
};

Descriptor memory_file(const char* name, size_t bytes) {
  Descriptor file(memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw Failure(Cause::environment, fmt::format("cannot make shared memory for the job: {}", std::strerror(errno)));
  return file;
}

Launcher::Launcher(int ranks, const std::vector<std::string>& command, const LaunchOptions& options, bool over_ucx) {
  const Descriptor segment = memory_file("meshrt-segment", round_to_huge(segment_bytes(ranks)));
  const Descriptor arena = memory_file("meshrt-arena", 0);
  const std::vector<int> cpus = cpus_in_mask();
  const int usable = allowed_cpus();
  children_.reserve(ranks);  // ranks that were started are in it if a later one cannot be
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw Failure(Cause::environment,
                    fmt::format("cannot make a socket for rank {}: {}", rank, std::strerror(errno)));
    const Descriptor theirs(ends[1]);
    ChildStart start;
    start.rank = rank;
    start.ranks = ranks;
    start.control = theirs.get();
    if (options.pin && ranks <= usable) start.cpu = cpus[rank];
    Descriptor out, error;
    if (options.tag_output) {
      out = output_.add(rank, STDOUT_FILENO);
      error = output_.add(rank, STDERR_FILENO);
      start.output = out.get();
      start.error = error.get();
    }
    Child child;
    child.control = Descriptor(ends[0]);
    child.pid = start_child(command, start);
    children_.push_back(std::move(child));
    welcome(rank, over_ucx ? std::vector<int>{} : std::vector<int>{segment.get(), arena.get()}, usable, over_ucx);
  }
}

Launcher::~Launcher() {
  // Only with an exception in flight is anybody left.
  kill_all(SIGKILL);
  for (const Child& child : children_)
    if (child.running) waitpid(child.pid, nullptr, 0);
}

void Launcher::welcome(int rank, const std::vector<int>& files, int cpus, bool over_ucx) const {
  const Welcome text{rank, static_cast<int32_t>(children_.capacity()), cpus, over_ucx};
  Message message{MessageKind::welcome, 0, std::string(sizeof text, '\0')};
  std::memcpy(message.bytes.data(), &text, sizeof text);
  send_message(children_[rank].control.get(), message, files);
}

int Launcher::run() {
  while (any_running()) {
    std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
    for (const Child& child : children_) watched.push_back({child.control.get(), POLLIN, 0});
    output_.watch(watched);
    poll(watched.data(), watched.size(), stopped_ || suspicion_ || any_leaving() ? 20 : -1);
    output_.forward();
    // Messages first: a rank that fails says why before it ends.
    for (int rank = 0; rank < static_cast<int>(children_.size()); ++rank) read_control(rank);
    if (signals_.read() && !stopped_) {
      code_ = 130;
      stop();
    }
    reap();
    if (suspicion_ && (!any_running() || Clock::now() - suspicion_->since > patience))
      fail(suspicion_->rank, suspicion_->code, suspicion_->what);
    if (stopped_ && Clock::now() - *stopped_ > patience) kill_all(SIGKILL);
  }
  if (stopped_) kill_all(SIGKILL);  // what the ranks themselves started
  output_.finish();
  return code_;
}

void Launcher::read_control(int rank) {
  Child& child = children_[rank];
  Message message;
  while (child.control.get() >= 0) {
    const Received received = receive_message(child.control.get(), message);
    if (received == Received::nothing) return;
    if (received == Received::closed) {
      child.control = Descriptor();
      return;
    }
    switch (message.kind) {
      case MessageKind::joined: child.joined = true; break;
      case MessageKind::exchange:
        child.exchanged = message.bytes;
        carry_exchange();
        break;
      case MessageKind::finished:
        child.finished = true;
        for (const Child& other : children_)
          if (other.running && other.joined && !other.finished)
            send_message(other.control.get(), {MessageKind::finished, rank, {}});
        break;
      case MessageKind::failed: {
        const int code = message.value == internal_error ? 70 : exit_code(static_cast<Cause>(message.value));
        if (message.value == static_cast<int32_t>(Cause::peer_died)) suspect(rank, code, ": " + message.bytes);
        else fail(rank, code, ": " + message.bytes);
        break;
      }
      case MessageKind::welcome: break;
    }
  }
}

void Launcher::carry_exchange() {
  if (!std::ranges::all_of(children_, [](const Child& child) { return child.exchanged.has_value(); })) return;
  for (const Child& to : children_)
    for (const Child& from : children_) send_message(to.control.get(), {MessageKind::exchange, 0, *from.exchanged});
  for (Child& child : children_) child.exchanged.reset();
}

void Launcher::reap() {
  std::vector<std::pair<int, int>> ended;  // rank, status
  for (int rank = 0; rank < static_cast<int>(children_.size()); ++rank) {
    Child& child = children_[rank];
    int status = 0;
    if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.running = false;
    ended.emplace_back(rank, status);
  }
  if (ended.empty()) return;
  // Last words, of all: one may have ended because of what another one has just reported.
  for (int rank = 0; rank < static_cast<int>(children_.size()); ++rank) read_control(rank);
  for (const auto& [rank, status] : ended) {
    const Child& child = children_[rank];
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (child.finished && code >= 0) {
      if (!stopped_) code_ = std::max(code_, code);
    } else if ((code != 0 || child.joined) && !child.suspects) {
      std::string what = fmt::format(" {} before the end of the job", how_it_ended(status));
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        what += "; if nobody killed it, the host ran out of memory";
      fail(rank, 3, what);
    }
  }
}

void Launcher::suspect(int rank, int code, const std::string& what) {
  children_[rank].suspects = true;
  if (!suspicion_) suspicion_ = Suspicion{rank, code, what, Clock::now()};
}

void Launcher::fail(int rank, int code, const std::string& what) {
  if (stopped_) return;  // a consequence of the first failure, or of stopping
  code_ = code;
  output_.forward();
  std::fflush(stdout);
  fmt::print(stderr, "{}{}\n", who(rank), what);
  stop();
}

void Launcher::stop() {
  stopped_ = Clock::now();
  kill_all(SIGTERM);
}

void Launcher::kill_all(int signal) const {
  for (const Child& child : children_)
    if (child.running || stopped_) kill(-child.pid, signal);
}

}  // namespace

int launch_processes(int ranks, const std::vector<std::string>& command, const LaunchOptions& options) {
  if (ranks < 1) throw Failure(Cause::usage, fmt::format("a job needs at least one rank, not {}", ranks));
  if (command.empty()) throw Failure(Cause::usage, "there is no program to run");
  std::string transport = options.transport;
  if (const char* chosen = std::getenv("MESHRT_TRANSPORT"); transport.empty() && chosen) transport = chosen;
  if (!transport.empty() && transport != "arena" && transport != "ucx")
    throw Failure(Cause::usage, fmt::format("there is no transport '{}'; choose arena or ucx", transport));
  if (options.timeout != 0) setenv("MESHRT_TIMEOUT", fmt::format("{}", options.timeout).c_str(), 1);
  wait_policy(ranks, 1);  // refuses a bad MESHRT_TIMEOUT once, not in every rank
  return Launcher(ranks, command, options, transport == "ucx").run();
}

}  // namespace meshrt
