// read_rate.cpp: how fast processors read memory that no cache holds: read_rate THREADS MIB. Each thread, on a
// processor of its own, adds up its share of MIB of floats, three times; prints the bytes a second of all together,
// the median time. g++ -O3 -march=native -pthread
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

typedef float Vector __attribute__((vector_size(64)));
constexpr long width = sizeof(Vector) / sizeof(float), streams = 8;

void be_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(processor), &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Several pieces side by side, each with a sum of its own, so that no addition waits for another.
float add_up(const Vector* from, long count) {
  const long piece = count / streams;
  std::array<Vector, streams> sums{};
  for (long i = 0; i < piece; ++i)
    for (long s = 0; s < streams; ++s) sums[s] += from[s * piece + i];
  float total = 0;
  for (const Vector& sum : sums)
    for (long lane = 0; lane < width; ++lane) total += sum[lane];
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("read_rate THREADS MIB\n", stderr), 2;
  using Clock = std::chrono::steady_clock;
  const int threads = std::atoi(argv[1]);
  const auto bytes = static_cast<size_t>(std::atol(argv[2])) << 20;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("read_rate: mmap"), 1;
  madvise(memory, bytes, MADV_HUGEPAGE);
  const long share = static_cast<long>(bytes / sizeof(Vector)) / threads;
  constexpr int turns = 3;
  std::vector<float> totals(static_cast<size_t>(threads));
  std::array<double, turns> times{};
  std::barrier together(threads);
  std::vector<std::jthread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      be_on(t);
      auto* const mine = static_cast<Vector*>(memory) + t * share;
      for (long i = 0; i < share; ++i) mine[i] = Vector{} + 1.0f;
      for (double& time : times) {
        together.arrive_and_wait();
        const auto start = Clock::now();
        totals[static_cast<size_t>(t)] = add_up(mine, share);
        together.arrive_and_wait();
        if (t == 0) time = std::chrono::duration<double>(Clock::now() - start).count();
      }
    });
  team.clear();
  if (std::ranges::any_of(totals, [](float total) { return total <= 0; })) return 1;  // and so the sums are needed
  std::ranges::sort(times);
  std::printf("%.0f\n", static_cast<double>(share * threads) * sizeof(Vector) / times[turns / 2]);
}
