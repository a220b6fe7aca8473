// collectives.cpp: a rank of ours for tests/bench/collectives: collectives FOLDER NAME, under meshrun or mpirun.
// Buffers lie in the arena, where programs keep what they communicate.
#include "meshrt/collectives.h"

#include <string>
#include <vector>

#include "meshrt/launch.h"
#include "peers/commands.h"

namespace {

using namespace meshrt;

class Ours : public bench::Peer {
 public:
  explicit Ours(Rank& rank) : rank_(rank), group_(rank.group(std::vector<Axis>{{rank.ranks(), 1}})) {
    rank.allocate(2 * bench::most_bytes, 4096);
    from_ = reinterpret_cast<float*>(rank.arena());
    to_ = from_ + bench::most_bytes / sizeof(float);
  }
  int rank() const override { return rank_.rank(); }
  int ranks() const override { return rank_.ranks(); }
  float* input(const std::string& collective, long count) override {
    parts_.clear();
    sides_.clear();
    const long whole = collective == "all_gather" ? count * ranks() : count;
    for (int m = 0; m <= ranks(); ++m) {
      parts_.push_back(part_begin(whole, m, ranks()));
      sides_.push_back(m);
    }
    return from_;
  }
  const float* output(const std::string& collective) const override {
    return collective == "all_reduce" || collective == "broadcast" ? from_ : to_;
  }
  void barrier() override { meshrt::barrier(rank_, group_, {}); }
  bool call(const std::string& collective, long count) override {
    const Blocks blocks{1, parts_, 1};
    if (collective == "all_reduce") all_reduce(rank_, group_, {}, from_, count, Type::f32, Reduce::sum);
    else if (collective == "reduce_scatter")
      reduce_scatter(rank_, group_, {}, from_, to_, blocks, Type::f32, Reduce::sum);
    else if (collective == "all_gather") all_gather(rank_, group_, {}, from_, to_, blocks, Type::f32);
    else if (collective == "all_to_all") all_to_all(rank_, group_, {}, from_, to_, exchange(), Type::f32);
    else if (collective == "broadcast") broadcast(rank_, group_, {}, from_, count, Type::f32, 0);
    else return false;
    return true;
  }

 private:
  // Each rank has one row of `count` elements and gets its columns of all rows.
  Exchange exchange() const { return {1, sides_, 1, parts_, 1, true}; }

  Rank& rank_;
  const Group& group_;
  float *from_ = nullptr, *to_ = nullptr;
  std::vector<int64_t> parts_, sides_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return run_rank([&](Rank& rank) {
    Ours ours(rank);
    bench::serve(ours, argv[1], argv[2]);
    return 0;
  });
}
