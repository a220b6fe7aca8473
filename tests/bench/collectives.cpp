// collectives: medians of collectives on the ranks that start it, f32, in place in the arena:
//   meshrun -n 2 collectives [all_reduce|all_gather|reduce_scatter|all_to_all] [arena|private] [most bytes]
// A time is the longest over the ranks, from a common start; "back to back" is the mean of calls without a start in
// common, as programs make them. Compare only with runs taken in turn on the same machine.
#include "meshrt/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "meshrt/failure.h"
#include "meshrt/launch.h"

namespace {

using namespace meshrt;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Bench {
 public:
  Bench(Rank& rank, std::string kind, bool in_arena, int64_t most) : rank_(rank), kind_(std::move(kind)), most_(most) {
    const size_t bytes = 2 * most + 4096;
    rank.allocate(in_arena ? bytes : 4096, in_arena ? 4096 : bytes);
    from_ = in_arena ? rank.arena() : rank.own();
    to_ = from_ + most;
  }

  void run() {
    for (int64_t size : {8, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20})
      if (size <= most_) measure(size);
  }

 private:
  void call(int64_t bytes) {
    const int64_t count = bytes / 4;
    std::vector<int64_t>& begin = begin_;
    begin.clear();
    for (int m = 0; m <= group_.size(); ++m) begin.push_back(part_begin(count, m, group_.size()));
    const Blocks blocks{1, begin, 1};
    if (kind_ == "all_reduce") all_reduce(rank_, group_, {}, from_, count, Type::f32, Reduce::sum);
    else if (kind_ == "all_gather") all_gather(rank_, group_, {}, from_, to_, blocks, Type::f32);
    else if (kind_ == "reduce_scatter") reduce_scatter(rank_, group_, {}, from_, to_, blocks, Type::f32, Reduce::sum);
    else if (kind_ == "all_to_all")
      all_to_all(rank_, group_, {}, from_, to_, {1, begin, 1, sides(), 1, true}, Type::f32);
    else throw Failure(Cause::usage, "unknown collective " + kind_);
  }
  // The other dim of an all-to-all: as many elements as members, so that the whole is `count` elements a member.
  std::span<const int64_t> sides() {
    sides_.clear();
    for (int m = 0; m <= group_.size(); ++m) sides_.push_back(m);
    return sides_;
  }

  void measure(int64_t bytes) {
    const int repeats = static_cast<int>(std::clamp<int64_t>((int64_t{400} << 20) / (bytes + 4096), 7, 5000));
    std::vector<double> times;
    for (int i = -3; i < repeats; ++i) {
      barrier(rank_, group_, {});
      const auto start = Clock::now();
      call(bytes);
      double longest = seconds_since(start);
      all_reduce(rank_, group_, {}, &longest, 1, Type::f64, Reduce::max);
      if (i >= 0) times.push_back(longest);
    }
    barrier(rank_, group_, {});
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) call(bytes);
    const double back_to_back = seconds_since(start) / repeats;
    std::ranges::sort(times);
    if (rank_.rank() == 0)
      fmt::print("{} np={} {:9d} B  median {:.2f} us  back-to-back {:.2f} us\n", kind_, rank_.ranks(), bytes,
                 times[times.size() / 2] * 1e6, back_to_back * 1e6);
    std::fflush(stdout);
  }

  Rank& rank_;
  std::string kind_;
  const Group& group_ = rank_.group(std::vector<Axis>{{rank_.ranks(), 1}});
  std::byte *from_ = nullptr, *to_ = nullptr;
  int64_t most_;
  std::vector<int64_t> begin_, sides_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_rank([&](Rank& rank) {
    Bench bench(rank, argc > 1 ? argv[1] : "all_reduce", argc < 3 || std::strcmp(argv[2], "private") != 0,
                argc > 3 ? std::stoll(argv[3]) : 64 << 20);
    bench.run();
    return 0;
  });
}
