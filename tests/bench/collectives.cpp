// collectives.cpp: a rank of ours for tests/bench/collectives: collectives FOLDER NAME, under meshrun or mpirun.
// Buffers lie in the arena, where programs keep what they communicate; calls are planned once, as those of a step are.
#include <string>
#include <utility>
#include <vector>

#include "meshrt/launch.h"
#include "meshrt/plan.h"
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
    if (std::pair asked{collective, count}; asked != planned_) {
      plan_ = plan(collective, collective == "all_gather" ? count * ranks() : count);
      planned_ = asked;
    }
    return from_;
  }
  const float* output(const std::string& collective) const override {
    return collective == "all_reduce" || collective == "broadcast" ? from_ : to_;
  }
  void barrier() override { meshrt::barrier(rank_, group_, {}); }
  bool call(const std::string&, long) override {
    plan_.run();
    return true;
  }

 private:
  Plan plan(const std::string& collective, long count) {
    parts_.clear();
    sides_.clear();
    for (int m = 0; m <= ranks(); ++m) {
      parts_.push_back(part_begin(count, m, ranks()));
      sides_.push_back(m);
    }
    const Blocks blocks{1, parts_, 1};
    if (collective == "all_reduce") return plan_all_reduce(rank_, group_, {}, from_, count, Type::f32, Reduce::sum);
    if (collective == "reduce_scatter")
      return plan_reduce_scatter(rank_, group_, {}, from_, to_, blocks, Type::f32, Reduce::sum);
    if (collective == "all_gather") return plan_all_gather(rank_, group_, {}, from_, to_, blocks, Type::f32);
    if (collective == "all_to_all") return plan_all_to_all(rank_, group_, {}, from_, to_, exchange(), Type::f32);
    return plan_broadcast(rank_, group_, {}, from_, count, Type::f32, 0);
  }
  // Each rank has one row of `count` elements and gets its columns of all rows.
  Exchange exchange() const { return {1, sides_, 1, parts_, 1, true}; }

  Rank& rank_;
  const Group& group_;
  float *from_ = nullptr, *to_ = nullptr;
  std::vector<int64_t> parts_, sides_;
  std::pair<std::string, long> planned_;  // floats of its input
  Plan plan_;
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
