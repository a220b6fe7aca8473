#include "meshrt/threads.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "meshrt/failure.h"
#include "system/wait.h"

namespace meshrt {

namespace {

constinit thread_local Threads* threads = nullptr;  // of the calling thread

/// The CPUs that the calling thread may run on, if they are as many as that.
std::vector<int> own_cpus(int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != count) return {};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void keep_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);  // only a hint: without it everything works
}

}  // namespace

/// One call of run at a time: its number wakes the helpers, each of which takes pieces until there are none and then
/// says so.
struct Threads::Shared {
  /// Those that a thread begins with, in a line of the cache of their own.
  struct alignas(64) OwnPieces {
    std::atomic<int64_t> next = 0;  // the first that nobody has taken
    int64_t end = 0;
  };

  std::atomic<uint32_t> call = 0;    // its number; an odd one ends the helpers
  std::atomic<int32_t> working = 0;  // helpers that have not said so yet
  std::vector<OwnPieces> pieces;     // of each thread
  const std::function<void(int64_t)>* piece = nullptr;
  std::mutex mutex;
  std::exception_ptr failure;  // the first
  std::vector<std::thread> helpers;
  std::chrono::microseconds spin;

  explicit Shared(size_t count) : pieces(count) {}

  /// Returns when the number is another one, or has been the same for so long that who waits may as well sleep.
  template <class Number>
  void look(const std::atomic<Number>& number, Number before) const {
    constexpr int looks_a_clock = 32;
    if (spin.count() == 0) return;
    const auto end = std::chrono::steady_clock::now() + spin;
    const auto changed = [&] { return number.load(std::memory_order_relaxed) != before; };
    while (!seen(changed, looks_a_clock) && std::chrono::steady_clock::now() < end) {}
  }

  /// Stretches of one length. Those of a thread are the same in every call of so many: what it has written, and the
  /// next call reads at the same place, is still in the caches of its core.
  void deal(int64_t count) {
    const auto threads = static_cast<int64_t>(pieces.size());
    for (int64_t begin = 0, t = 0; t < threads; ++t) {
      OwnPieces& own = pieces[static_cast<size_t>(t)];
      own.next.store(begin, std::memory_order_relaxed);
      own.end = begin = (count * (t + 1) + threads - 1) / threads;
    }
  }

  /// The thread's own pieces, then what the others have left.
  void take(size_t thread) {
    try {
      for (size_t i = 0; i < pieces.size(); ++i) {
        OwnPieces& from = pieces[(thread + i) % pieces.size()];
        for (int64_t p; (p = from.next.fetch_add(1, std::memory_order_relaxed)) < from.end;) (*piece)(p);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      for (OwnPieces& all : pieces) all.next.store(all.end, std::memory_order_relaxed);
    }
  }

  void help(size_t thread) {
    for (uint32_t last = 0;;) {
      look(call, last);
      call.wait(last, std::memory_order_acquire);
      last = call.load(std::memory_order_acquire);
      if (last % 2 != 0) return;
      take(thread);
      if (working.fetch_sub(1, std::memory_order_acq_rel) == 1) working.notify_one();
    }
  }

  void begin_call(uint32_t step) {
    call.fetch_add(step, std::memory_order_release);
    call.notify_all();
  }

  void end() {
    begin_call(1);
    for (std::thread& helper : helpers) helper.join();
  }
};

Threads::Threads(int count, std::chrono::microseconds spin)
    : shared_(std::make_unique<Shared>(static_cast<size_t>(count))) {
  shared_->spin = spin;
  const std::vector<int> cpus = own_cpus(count);
  try {
    for (int i = 1; i < count; ++i)
      shared_->helpers.emplace_back([shared = shared_.get(), thread = static_cast<size_t>(i), cpus] {
        if (!cpus.empty()) keep_to(cpus[thread]);
        shared->help(thread);
      });
  } catch (const std::system_error& error) {
    const size_t started = shared_->helpers.size() + 1;
    shared_->end();
    throw Failure(Cause::environment, fmt::format("the system starts {} of {} threads of a rank: {}\nask for fewer, or "
                                                  "raise the limit (ulimit -u)",
                                                  started, count, error.what()));
  }
  if (!cpus.empty()) keep_to(cpus.front());
  threads = this;
}

Threads::~Threads() {
  threads = nullptr;
  shared_->end();
}

int Threads::count() const { return static_cast<int>(shared_->helpers.size()) + 1; }

Threads* Threads::mine() { return threads; }

void Threads::run(int64_t pieces, const std::function<void(int64_t)>& piece) {
  Shared& shared = *shared_;
  shared.piece = &piece;
  shared.deal(pieces);
  shared.working.store(static_cast<int32_t>(shared.helpers.size()), std::memory_order_relaxed);
  shared.begin_call(2);
  threads = nullptr;  // a piece is alone
  shared.take(0);
  threads = this;
  for (int32_t left; (left = shared.working.load(std::memory_order_acquire)) != 0;) {
    shared.look(shared.working, left);
    shared.working.wait(left);
  }
  if (std::exception_ptr failure = std::exchange(shared.failure, nullptr)) std::rethrow_exception(failure);
}

void detail::share(int64_t extent, int64_t least, Stretch stretch, const void* piece) {
  Threads* const all = Threads::mine();
  const int64_t most = all == nullptr ? 1 : extent / std::max<int64_t>(least, 1);
  if (most < 2) return stretch(piece, 0, extent);
  // More stretches than threads: a thread that is held up leaves its share to the others.
  const int64_t stretches = std::min<int64_t>(most, 4 * all->count());
  all->run(stretches, [&](int64_t i) { stretch(piece, extent * i / stretches, extent * (i + 1) / stretches); });
}

int threads_of_rank() {
  const char* given = std::getenv("MESHRT_THREADS");
  if (given == nullptr || *given == '\0') return 1;
  const std::string_view text = given;
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > most_threads)
    throw Failure(Cause::usage, fmt::format("MESHRT_THREADS is the number of threads of a rank, from 1 to {}, not `{}`",
                                            most_threads, text));
  return count;
}

}  // namespace meshrt
