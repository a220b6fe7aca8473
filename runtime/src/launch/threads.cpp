// Ranks as threads of one process: for the interpreter and for tests. The first failure is kept, the others are stopped
// at their next collective.
#include "meshrt/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "launch/cpus.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "system/host_name.h"
#include "system/tell.h"
#include "transport/shared.h"

namespace meshrt {

int launch_threads(int ranks, const std::function<int(Rank&)>& body) {
  if (ranks < 1) throw Failure(Cause::usage, fmt::format("a job needs at least one rank, not {}", ranks));
  const auto memory = std::make_shared<SharedMemory>(ranks);
  const WaitPolicy policy = wait_policy(ranks * threads_of_rank(), allowed_cpus());
  std::mutex mutex;
  int code = 0;
  bool failed = false;

  const auto fail = [&](const std::string& who, int its_code, const char* what) {
    const std::lock_guard lock(mutex);
    if (failed) return;
    failed = true;
    code = its_code;
    std::fflush(stdout);
    tell("{}: {}\n", who, what);
    memory->header().aborted.store(1, std::memory_order_release);
  };
  const auto run = [&](int number) {
    try {
      auto transport = std::make_unique<SharedTransport>(number, memory, policy);
      transport->set_placement(Placement::together(ranks, host_name()));
      transport->set_cpus(allowed_cpus());
      Rank rank(number, ranks, std::move(transport));
      const int its_code = body(rank);
      const std::lock_guard lock(mutex);
      if (!failed) code = std::max(code, its_code);
    } catch (const Aborted&) {
    } catch (const Failure& failure) {
      const bool given = failure.cause == Cause::data || failure.cause == Cause::usage;  // to all ranks alike
      fail(given ? "error" : fmt::format("rank {}", number), exit_code(failure.cause), failure.what());
    } catch (const std::exception& error) {
      fail(fmt::format("rank {}", number), 70, error.what());
    }
  };

  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  return code;
}

}  // namespace meshrt
