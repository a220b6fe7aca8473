// sleeping_ranks.cpp: a rank of a pipeline that sleeps where it would compute, under meshrun:
//   sleeping_ranks SCHEDULE MICRO_BATCHES CHUNKS none|stage|except_last MILLISECONDS
// F, I, W and R of a rank take so long each, over all of its stages. Sleep takes no processor, so what more ranks than
// processors do at a time is seen: rank 0 prints how long a step has taken, and how long the simulation says.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/simulate.h"
#include "meshrt/launch.h"
#include "meshrt/poll.h"
#include "tests/schedule/lists.h"
#include "tests/schedule/ranks.h"

namespace mesh {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using tests::Rank, tests::StageWork;

/// Looks after messages under way meanwhile, as kernels do.
class Sleep final : public tests::Kernels {
 public:
  explicit Sleep(Seconds one) : one_(one) {}
  float forward(int32_t, int32_t, float) override { return pass(1); }
  float backward(StageWork work, int32_t, int32_t, float) override { return pass(work == StageWork::backward ? 2 : 1); }
  void other(StageWork) override { pass(1); }

 private:
  float pass(int times) const {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(times * one_);
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
      meshrt::poll();
      std::this_thread::sleep_for(std::min<Clock::duration>(end - now, std::chrono::milliseconds(1)));
    }
    return 0;
  }
  Seconds one_;
};

Remat remat_of(const std::string& text) {
  if (text == "none") return Remat::none;
  if (text == "stage") return Remat::stage;
  if (text == "except_last") return Remat::except_last;
  throw std::invalid_argument(text);
}

/// Of all ranks, from when the last one begins to when the last one ends.
double measured(Rank& rank, const WithMessages& of, Sleep& kernels) {
  const PipelineSchedule& schedule = of.schedule;
  const meshrt::Group& all = rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}});
  rank.allocate(tests::RankOfPipeline::arena_bytes(schedule), 0);
  tests::RankOfPipeline own(rank, schedule, 1, kernels, slots_of_messages(schedule, of.waiting));
  meshrt::barrier(rank, all, {});
  const auto start = Clock::now();
  own.run();
  double seconds = Seconds(Clock::now() - start).count();
  meshrt::all_reduce(rank, all, {}, &seconds, 1, meshrt::Type::f64, meshrt::Reduce::max);
  return seconds;
}

int run(Rank& rank, const std::vector<std::string>& of) {
  const PipelineSchedule named = tests::named(of.at(0), rank.ranks(), std::stoi(of.at(1)), std::stoi(of.at(2)));
  const WithMessages whole = with_messages(with_recompute(named, remat_of(of.at(3)))).value();
  const PipelineSchedule& schedule = whole.schedule;
  const Seconds one = std::chrono::duration<double, std::milli>(std::stod(of.at(4)));
  ScheduleCosts costs;
  costs.ranks.assign(schedule.ranks.size(), {one.count(), one.count(), one.count(), one.count()});
  Sleep kernels(one * rank.ranks() / schedule.stages);
  const double seconds = measured(rank, whole, kernels);
  if (rank.rank() == 0)
    fmt::print("{{\"measured\": {:.6f}, \"simulated\": {:.6f}}}\n", seconds, simulate(schedule, costs).makespan);
  return 0;
}

}  // namespace
}  // namespace mesh

int main(int count, char** arguments) {
  const std::vector<std::string> of(arguments + 1, arguments + count);
  return meshrt::run_rank([&](meshrt::Rank& rank) { return mesh::run(rank, of); });
}
