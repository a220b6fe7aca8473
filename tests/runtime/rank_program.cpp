// rank_program: what the tests run as the ranks of a job. The first argument says what to do.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cases.h"
#include "channels.h"
#include "groups.h"
#include "interleave.h"
#include "meshrt/channel.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "misbehave.h"
#include "one_pass.h"
#include "plans.h"
#include "transport/progress_thread.h"
#include "transport/transport.h"

namespace {

using meshrt::Rank;

// Ends in the way that was asked for, and says when.
void end_as(const std::string& how) {
  fmt::print("{}\n", std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
  std::fflush(stdout);
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "terminate") kill(getpid(), SIGTERM);
  if (how == "hang up") {
    std::signal(SIGHUP, SIG_DFL);  // which nohup has had ignored
    kill(getpid(), SIGHUP);
  }
  if (how == "stop") kill(getpid(), SIGSTOP);
  if (how == "busy") {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (std::chrono::steady_clock::now() < end) {}
    throw meshrt::Failure(meshrt::Cause::data, "it took its time");
  }
  if (how == "exit") _exit(1);
  if (how == "exit0") _exit(0);
  if (how == "abort") std::abort();
  if (how == "throw") throw std::runtime_error("something broke");
  if (how == "data") throw meshrt::Failure(meshrt::Cause::data, "the file tokens.bin is empty");
  if (how == "usage") throw meshrt::Failure(meshrt::Cause::usage, "there is no option --strps");
}

// Collectives without end; rank `which` ends after `milliseconds`.
int loop(Rank& rank, const std::string& how, int which, int milliseconds) {
  rank.allocate(8 << 20, 1 << 20);
  const auto& group = rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}});
  auto* data = reinterpret_cast<float*>(rank.arena());
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (int i = 0;; ++i) {
    if (rank.rank() == which && std::chrono::steady_clock::now() > end) end_as(how);
    const int64_t count = i % 3 == 0 ? 1 : i % 3 == 1 ? 3000 : 300000;
    all_reduce(rank, group, {1, "loop"}, data, count, meshrt::Type::f32, meshrt::Reduce::max);
  }
}

// Messages around a ring of ranks without end; rank `which` ends after `milliseconds`.
int ring(Rank& rank, const std::string& how, int which, int milliseconds) {
  constexpr int micro_batches = 4;
  constexpr int64_t count = 30000;
  rank.allocate(8 << 20, 1 << 20);
  const int me = rank.rank(), next = (me + 1) % rank.ranks(), before = (me + rank.ranks() - 1) % rank.ranks();
  auto* const data = reinterpret_cast<float*>(rank.arena());
  constexpr auto apart = count * static_cast<int64_t>(sizeof(float));
  constexpr auto type = meshrt::Type::f32;
  meshrt::ChannelEnd out(rank, {me, next, 0, micro_batches}, {1, "ring"}, {data, apart, 2}, count, type);
  meshrt::ChannelEnd in(rank, {before, me, 0, micro_batches}, {1, "ring"}, {data + 2 * count, apart, 4}, count, type);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (int i = 0;; i = (i + 1) % micro_batches) {
    if (me == which && std::chrono::steady_clock::now() > end) end_as(how);
    in.start(i);
    out.make_room(i);
    out.start(i);
    in.wait(i);
  }
}

// Calls of one kind on `bytes`, for what they put on a wire: "sum", "scatter", "gather".
int send(Rank& rank, const std::string& kind, int64_t bytes, int times) {
  rank.allocate(static_cast<size_t>(2 * bytes), 1 << 20);
  const auto& group = rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}});
  const auto count = bytes / static_cast<int64_t>(sizeof(float));
  auto *const whole = reinterpret_cast<float*>(rank.arena()), *const part = whole + count;
  std::vector<int64_t> begin;
  for (int member = 0; member <= group.size(); ++member)
    begin.push_back(meshrt::part_begin(count, member, group.size()));
  const meshrt::Blocks blocks{1, begin, 1};
  const int64_t own = begin[group.index + 1] - begin[group.index];
  constexpr auto type = meshrt::Type::f32;
  for (int i = 0; i < times; ++i) {
    std::fill_n(whole, count, 1.0F);
    std::fill_n(part, own, static_cast<float>(rank.ranks()));
    if (kind == "sum") all_reduce(rank, group, {1, "sum"}, whole, count, type, meshrt::Reduce::sum);
    if (kind == "scatter") reduce_scatter(rank, group, {1, "scatter"}, whole, part, blocks, type, meshrt::Reduce::sum);
    if (kind == "gather") all_gather(rank, group, {1, "gather"}, part, whole, blocks, type);
    const float* const result = kind == "scatter" ? part : whole;
    if (std::any_of(result, result + (kind == "scatter" ? own : count),
                    [&](float x) { return x != static_cast<float>(rank.ranks()); }))
      throw std::runtime_error("a wrong result of " + kind);
  }
  return 0;
}

// What this process has mapped of the arenas of all ranks in huge pages.
int64_t huge_bytes_of_arenas() {
  std::ifstream areas("/proc/self/smaps");
  int64_t kibibytes = 0;
  bool of_arenas = false;
  for (std::string line; std::getline(areas, line);) {
    const bool begins = line.find(':') > line.find('-');  // "7f12-7f13 rw-s 00000000 00:01 1234 /memfd:meshrt-arena"
    if (begins) of_arenas = line.find("memfd:meshrt-arena") != std::string::npos;
    else if (of_arenas && line.starts_with("ShmemPmdMapped:")) kibibytes += std::stoll(line.substr(line.find(':') + 1));
  }
  return kibibytes << 10;
}

// Tells the bytes of huge pages in its own arena, and in all of them once it has read them.
int pages(Rank& rank, size_t bytes) {
  rank.allocate(bytes, 1 << 20);
  const int64_t own = huge_bytes_of_arenas();
  const auto& group = rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}});
  for (int member = 0; member < group.size(); ++member) {
    const volatile std::byte* const arena = rank.transport().arena_of(group, member);
    for (size_t at = 0; at < bytes; at += 4096) (void)arena[at];
  }
  fmt::print("{} {}\n", own, huge_bytes_of_arenas());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return meshrt::run_rank([&](Rank& rank) {
    const auto progress =
        arguments.back() == "--progress-thread" ? std::make_unique<meshrt::ProgressThread>(rank.transport()) : nullptr;
    if (arguments.at(0) == "cases") {
      meshrt::test::run_all_cases(rank);
      return 0;
    }
    if (arguments.at(0) == "beside") {
      meshrt::test::run_beside(rank);
      return 0;
    }
    if (arguments.at(0) == "interleaved") {
      meshrt::test::run_interleaved(rank);
      return 0;
    }
    if (arguments.at(0) == "groups") {
      meshrt::test::run_groups(rank);
      return 0;
    }
    if (arguments.at(0) == "channels") {
      meshrt::test::run_channels(rank);
      return 0;
    }
    if (arguments.at(0) == "one_pass") {
      meshrt::test::run_one_pass(rank);
      return 0;
    }
    if (arguments.at(0) == "plans") {
      meshrt::test::run_plans(rank);
      return 0;
    }
    if (arguments.at(0) == "misbehave") return meshrt::test::misbehave(rank, arguments.at(1));
    if (arguments.at(0) == "loop")
      return loop(rank, arguments.at(1), std::stoi(arguments.at(2)), std::stoi(arguments.at(3)));
    if (arguments.at(0) == "ring")
      return ring(rank, arguments.at(1), std::stoi(arguments.at(2)), std::stoi(arguments.at(3)));
    if (arguments.at(0) == "sum" || arguments.at(0) == "scatter" || arguments.at(0) == "gather")
      return send(rank, arguments.at(0), std::stoll(arguments.at(1)), std::stoi(arguments.at(2)));
    if (arguments.at(0) == "pages") return pages(rank, std::stoull(arguments.at(1)));
    if (arguments.at(0) == "return") return rank.rank() == 1 ? 5 : 0;
    throw meshrt::Failure(meshrt::Cause::usage, "unknown task " + arguments.at(0));
  });
}
