#include "launch/coordinator.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "control/heartbeat.h"
#include "launch/child.h"
#include "meshrt/failure.h"
#include "report/flight_reader.h"
#include "report/run_folder.h"
#include "system/tell.h"
#include "system/text_file.h"

namespace meshrt {

namespace {

constexpr auto grace = std::chrono::milliseconds(200);       // between asking to end and killing
constexpr int own_process = -1;                              // among those who are asked to end the job
constexpr auto last_wait = std::chrono::milliseconds(5000);  // for a host to tell that its killed ranks are gone

}  // namespace

Coordinator::Coordinator(Placement placement, const Signals* signals)
    : placement_(std::move(placement)), signals_(signals), members_(placement_.ranks()), silence_(longest_silence()) {}

int Coordinator::run() {
  while (any_running()) {
    std::vector<pollfd> watched;
    if (signals_) watched.push_back({signals_->descriptor(), POLLIN, 0});
    for (const auto& host : hosts_) host->watch(watched);
    poll(watched.data(), watched.size(), patience());
    for (const auto& host : hosts_) host->advance();
    listen_for_silence();
    if (signals_)
      for (const int signal : signals_->read()) asked_to_end(own_process, signal);
    if (suspicion_ && (!any_running() || Clock::now() - suspicion_->since > grace))
      fail(who(suspicion_->rank), suspicion_->code, suspicion_->what);
    if (!stopped_) continue;
    if (const auto since = Clock::now() - *stopped_; since > last_wait) break;
    else if (since > grace && !killed_) {
      killed_ = true;
      signal_all(SIGKILL);
    }
  }
  if (stopped_)
    for (const auto& host : hosts_) host->clear();
  for (const auto& host : hosts_) host->flush();
  note_end_in_log();
  return code_;
}

int Coordinator::patience() const {
  int shortest = stopped_ || suspicion_ ? 20 : -1;
  const auto beats = [](const Member& member) { return member.running && member.heard; };
  if (shortest < 0 && silence_.count() > 0 && std::ranges::any_of(members_, beats))
    shortest = static_cast<int>(std::min<int64_t>(250, silence_.count()));
  for (const auto& host : hosts_)
    if (const int theirs = host->patience(); theirs >= 0 && (shortest < 0 || theirs < shortest)) shortest = theirs;
  return shortest;
}

// A rank whose step is long still beats; one that is stopped does not, and nobody else would notice before the timeout.
void Coordinator::listen_for_silence() {
  constexpr auto own_pause = std::chrono::seconds(5);  // this process was stopped itself, or its machine slept
  const auto now = Clock::now();
  const bool paused = now - listened_ > own_pause;
  listened_ = now;
  if (stopped_ || silence_.count() == 0) return;
  for (int rank = 0; rank < placement_.ranks(); ++rank) {
    Member& member = members_[rank];
    if (!member.heard || !member.running || member.finished) continue;
    const bool of_this_host = hosts_[static_cast<size_t>(placement_.host_of_rank[rank])]->is_here();
    const bool here = of_this_host && member.pid > 0;
    if (paused || (here && is_debugged(member.pid))) member.heard = now;
    // A host that hangs is told as such, by its link, which may have been heard of later than a rank by one beat.
    const auto longer = std::chrono::milliseconds(of_this_host ? 0 : 2500);
    if (now - *member.heard <= silence_ + longer) continue;
    const std::string state = here ? state_of(member.pid) : "";
    fail(who(rank), 3,
         fmt::format(" has given no sign of life for {:g} s{}; MESHRT_HEARTBEAT=0 waits for ever",
                     static_cast<double>(silence_.count()) / 1000, state.empty() ? "" : ": " + state),
         [&] { return last_words(rank); });
    return;
  }
}

// Who ends a job of several hosts may tell each of them: only a second signal to one of them is a second wish.
void Coordinator::asked_to_end(int host, int signal) {
  const bool again = !askers_.insert(host).second;
  if (stopped_) return;
  if (again || signal == SIGQUIT) return end_at_once(signal);
  if (passed_on_) return;
  passed_on_ = signal;
  signal_all(signal);
}

void Coordinator::end_at_once(int signal, const std::string& whose) {
  if (stopped_) return;
  code_ = 130;
  stop(SIGKILL);  // ranks may take another signal for a wish to end in order
  announce(fmt::format("SIG{}{} has ended the run at once", sigabbrev_np(signal), whose));
}

void Coordinator::entered(int rank, int pid) { members_[rank].pid = pid; }

void Coordinator::received(int rank, const Message& message) {
  Member& member = members_[rank];
  switch (message.kind) {
    case MessageKind::joined:
      member.joined = true;
      miss_those_that_left();
      break;
    case MessageKind::exchange:
      member.exchanged = message.bytes;
      carry_exchange();
      break;
    case MessageKind::finished:
      member.finished = true;
      for (const auto& host : hosts_) host->send(every_rank, {MessageKind::finished, rank, {}});
      break;
    case MessageKind::beat:
      member.heard = Clock::now();
      if (!message.bytes.empty()) member.recorder = message.bytes;
      break;
    case MessageKind::failed: {
      const bool has_cause = message.value >= 0 && message.value <= static_cast<int32_t>(Cause::numeric);
      const int code = has_cause ? exit_code(static_cast<Cause>(message.value)) : 70;
      if (message.value == static_cast<int32_t>(Cause::peer_died)) suspect(rank, code, ": " + message.bytes);
      else if (message.value == static_cast<int32_t>(Cause::timeout))
        fail(who(rank), code, ": " + message.bytes, [&] { return where_all_are(); });
      else fail(who(rank), code, ": " + message.bytes);
      break;
    }
    default: break;
  }
}

void Coordinator::carry_exchange() {
  if (!std::ranges::all_of(members_, [](const Member& member) { return member.exchanged.has_value(); })) return;
  for (const auto& host : hosts_)
    for (const Member& from : members_) host->send(every_rank, {MessageKind::exchange, 0, *from.exchanged});
  for (Member& member : members_) member.exchanged.reset();
}

// A rank that ends in order without a word may be no program of ours, but then none is.
void Coordinator::miss_those_that_left() {
  if (std::ranges::none_of(members_, &Member::joined)) return;
  for (int rank = 0; rank < placement_.ranks(); ++rank)
    if (const Member& member = members_[rank]; !member.running && !member.joined && !member.finished)
      return fail(who(rank), 3, " exited with code 0 before it joined the job");
}

void Coordinator::ended(int rank, int status) {
  Member& member = members_[rank];
  member.running = false;
  if (status == unknown_status) {
    if (!member.finished && !member.suspects)
      fail(who(rank), 3, " has ended before the end of the job; what started it may know how");
    return;
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (member.finished && code >= 0) {
    if (!stopped_) code_ = std::max(code_, code);
  } else if (WIFSIGNALED(status) && is_stop_signal(WTERMSIG(status))) {
    // It does not end in order, or not yet: it may wait for a folder, or have just begun.
    end_at_once(WTERMSIG(status), passed_on_ == WTERMSIG(status) ? "" : " to " + who(rank));
  } else if ((code != 0 || member.joined) && !member.suspects) {
    std::string what = fmt::format(" {} before the end of the job", how_it_ended(status));
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) what += "; if nobody killed it, the host ran out of memory";
    fail(who(rank), 3, what, [&] { return last_words(rank); });
  } else if (code == 0) {
    miss_those_that_left();
  }
}

void Coordinator::lost(int host, const std::string& why) {
  for (const int rank : placement_.ranks_of(host)) members_[rank].running = false;
  fail(fmt::format("host {}", placement_.hosts[host]), 3, ": " + why);
}

// What the flight recorder of a rank has kept, where its file can be read from here.
std::string Coordinator::last_words(int rank) const {
  if (members_[rank].recorder.empty()) return "";
  const std::optional<Flight> flight = read_flight(members_[rank].recorder);
  const std::string words = flight ? meshrt::last_words(*flight) : "";
  if (words.empty()) return "";
  return fmt::format("; {}; `meshrun postmortem {}` tells more", words, folder_of_recorder(members_[rank].recorder));
}

// The one that is waited for may itself wait for a third.
std::string Coordinator::where_all_are() const {
  constexpr size_t most = 64;
  std::vector<Flight> flights;
  for (const Member& member : members_)
    if (!member.recorder.empty() && flights.size() < most)
      if (auto flight = read_flight(member.recorder)) flights.push_back(std::move(*flight));
  return flights.empty() ? "" : ". " + whereabouts(flights);
}

void Coordinator::suspect(int rank, int code, const std::string& what) {
  members_[rank].suspects = true;
  if (!suspicion_) suspicion_ = Suspicion{rank, code, what, Clock::now()};
}

void Coordinator::fail(const std::string& who, int code, const std::string& what,
                       const std::function<std::string()>& more) {
  if (stopped_) return;  // a consequence of the first failure, or of stopping
  code_ = code;
  stop(SIGTERM);
  announce(who + what + (more ? more() : ""));
}

// The log is written when everybody is gone: a disk that hangs must not keep ranks alive.
void Coordinator::announce(const std::string& end) {
  for (const auto& host : hosts_) host->flush();
  tell("{}\n", end);
  end_ = end;
}

void Coordinator::stop(int signal) {
  stopped_ = Clock::now();
  signal_all(signal);
}

// How the run has ended, where its folder can be reached from here.
void Coordinator::note_end_in_log() const {
  if (end_.empty()) return;
  const auto has = [](const Member& member) { return !member.recorder.empty(); };
  if (const auto member = std::ranges::find_if(members_, has); member != members_.end())
    append_line(log_of_run(folder_of_recorder(member->recorder)), end_);
}

void Coordinator::signal_all(int number) {
  for (const auto& host : hosts_) host->signal(number);
}

bool Coordinator::any_running() const { return std::ranges::any_of(members_, &Member::running); }

std::string Coordinator::who(int rank) const {
  if (placement_.one_host()) return fmt::format("rank {} (pid {})", rank, members_[rank].pid);
  return fmt::format("rank {} (pid {} on {})", rank, members_[rank].pid, placement_.host_name(rank));
}

}  // namespace meshrt
