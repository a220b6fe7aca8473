// shm_floor.cpp: the floor for tests/bench/collectives: what an all-reduce between processes of one host costs when its
// buffers lie in one shared mapping and nothing is checked: shm_floor FOLDER NAME RANKS. Each rank sums its slice of
// all inputs and writes it to every output, past the caches where they are too small. And "copy": each rank copies
// `bytes` from one buffer to another, all at the same time. g++ -O3 -march=native
#include <emmintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "commands.h"

namespace {

typedef float Vector __attribute__((vector_size(64)));
constexpr long width = sizeof(Vector) / sizeof(float);

struct alignas(128) Flag {
  std::atomic<unsigned> number;
};

void* shared(size_t bytes) { return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }

class Floor : public bench::Peer {
 public:
  explicit Floor(int ranks)
      : ranks_(ranks),
        flags_(static_cast<Flag*>(shared(ranks * sizeof(Flag)))),
        buffers_(static_cast<std::byte*>(shared(2 * ranks * static_cast<size_t>(bench::most_bytes)))) {}
  /// Becomes one rank in a process of its own.
  void be(int rank) {
    rank_ = rank;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    yields_ = ranks_ > cpus;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank % cpus, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  float* input(const std::string&, long) override { return in(rank_); }
  const float* output(const std::string&) const override { return out(rank_); }
  void barrier() override {
    ++round_;
    flags_[rank_].number.store(round_, std::memory_order_release);
    for (int r = 0; r < ranks_; ++r)
      while (static_cast<int>(flags_[r].number.load(std::memory_order_acquire) - round_) < 0) {
        if (yields_) sched_yield();
        else _mm_pause();
      }
  }
  bool call(const std::string& collective, long count) override {
    if (collective == "copy") std::memcpy(out(rank_), in(rank_), count * sizeof(float));
    else if (collective == "all_reduce") all_reduce(count);
    else return false;
    return true;
  }

 private:
  float* in(int rank) const { return reinterpret_cast<float*>(buffers_ + rank * bench::most_bytes); }
  float* out(int rank) const { return in(ranks_ + rank); }

  void all_reduce(long count) {
    barrier();
    constexpr long few = 256;
    if (count <= few) {
      float sum[few];
      for (long i = 0; i < count; ++i) {
        sum[i] = 0;
        for (int r = 0; r < ranks_; ++r) sum[i] += in(r)[i];
      }
      std::memcpy(out(rank_), sum, count * sizeof(float));
    } else {
      const bool stream = 2 * ranks_ * count * static_cast<long>(sizeof(float)) > (24l << 20);
      const long part = count / ranks_ / width * width;
      const long begin = part * rank_, end = rank_ + 1 == ranks_ ? count : begin + part;
      for (long i = begin; i < end; i += width) {
        auto sum = *reinterpret_cast<const Vector*>(in(0) + i);
        for (int r = 1; r < ranks_; ++r) sum += *reinterpret_cast<const Vector*>(in(r) + i);
        for (int r = 0; r < ranks_; ++r) put(out(r) + i, sum, stream);
      }
      _mm_sfence();
    }
    barrier();
  }
  static void put(float* to, const Vector& x, bool stream) {
    if (!stream) {
      *reinterpret_cast<Vector*>(to) = x;
      return;
    }
    __m128i words[4];
    std::memcpy(words, &x, sizeof x);
    for (int w = 0; w < 4; ++w) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + w, words[w]);
  }

  int ranks_, rank_ = 0;
  Flag* flags_;
  std::byte* buffers_;
  unsigned round_ = 0;
  bool yields_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int ranks = std::atoi(argv[3]);
  Floor floor(ranks);
  int rank = 0;
  for (int r = 1; r < ranks && rank == 0; ++r)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      rank = r;
    }
  floor.be(rank);
  bench::serve(floor, argv[1], argv[2]);
  if (rank == 0)
    while (wait(nullptr) > 0) {}
}
