// Rows of all named schedules, carried out by ranks over channels: what comes to each action is what the stage beside
// it has made of it, and schedules that are faster in the simulation are so here.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "codegen/schedule/check_schedule.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/simulate.h"
#include "meshrt/launch.h"
#include "meshrt/pipeline.h"
#include "tests/schedule/lists.h"

namespace mesh {
namespace {

using meshrt::ChannelEnd, meshrt::PipelineAction, meshrt::Rank, meshrt::StageChannels, meshrt::StageWork;
using tests::named;

PipelineAction to_row(const Action& action) {
  static const std::map<ActionKind, StageWork> works = {{ActionKind::forward, StageWork::forward},
                                                        {ActionKind::recompute, StageWork::recompute},
                                                        {ActionKind::backward, StageWork::backward},
                                                        {ActionKind::input_gradient, StageWork::input_gradient},
                                                        {ActionKind::weight_gradient, StageWork::weight_gradient},
                                                        {ActionKind::send_forward, StageWork::send_forward},
                                                        {ActionKind::receive_forward, StageWork::receive_forward},
                                                        {ActionKind::send_backward, StageWork::send_backward},
                                                        {ActionKind::receive_backward, StageWork::receive_backward}};
  const PipelineAction made{works.at(action.kind), action.stage, action.micro_batch};
  EXPECT_EQ(to_text(made), to_text(action));
  EXPECT_EQ(meshrt::action_text(made.word()), to_text(action));
  return made;
}

/// One rank's part: a stage adds its number to what comes forward, and hands back twice what comes backward.
class RankOfPipeline {
 public:
  RankOfPipeline(Rank& rank, const PipelineSchedule& schedule, int slots)
      : rank_(rank), schedule_(schedule), slots_(slots), stages_(schedule.stages), values_(schedule.stages) {
    const std::vector<int> at = schedule.rank_of_stage();
    // Both ends of a boundary name it by the stage before it.
    for (int32_t stage = 0; stage < schedule.stages; ++stage) {
      if (at[stage] != rank.rank()) continue;
      Values& of = values_[stage];
      for (std::vector<float>* const all : {&of.came, &of.made, &of.came_back, &of.given_back})
        all->resize(schedule.micro_batches, -1);
      if (stage > 0 && at[stage - 1] != rank.rank()) {
        connect(stages_[stage].forward_in, at[stage - 1], rank.rank(), 2 * (stage - 1), of.came);
        connect(stages_[stage].backward_out, rank.rank(), at[stage - 1], 2 * (stage - 1) + 1, of.given_back);
      }
      if (stage + 1 < schedule.stages && at[stage + 1] != rank.rank()) {
        connect(stages_[stage].forward_out, rank.rank(), at[stage + 1], 2 * stage, of.made);
        connect(stages_[stage].backward_in, at[stage + 1], rank.rank(), 2 * stage + 1, of.came_back);
      }
    }
    for (const Action& action : schedule.ranks[rank.rank()])
      if (action.kind != ActionKind::idle) row_.push_back(to_row(action));
  }

  /// Each action takes as long as `seconds` says.
  void run(int step, const std::function<double(StageWork)>& seconds) {
    run_row(row_, stages_, [&](const PipelineAction& action) {
      compute(step, action);
      if (const double time = seconds(action.work); time > 0)
        std::this_thread::sleep_for(std::chrono::duration<double>(time));
    });
  }

 private:
  struct Values {
    std::vector<float> came, made, came_back, given_back;
  };

  void connect(std::vector<ChannelEnd>& ends, int from, int to, int number, std::vector<float>& values) {
    const int m = schedule_.micro_batches;
    ends.emplace_back(rank_, meshrt::ChannelShape{from, to, number, m, slots_}, meshrt::Site{-1, "value"},
                      meshrt::ChannelBuffers{values.data(), sizeof(float), m}, 1, meshrt::Type::f32);
  }

  void compute(int step, const PipelineAction& action) {
    const int32_t stage = action.stage, one = action.micro_batch;
    Values& of = values_[stage];
    const bool last = stage + 1 == schedule_.stages;
    if (action.work == StageWork::forward) {
      if (stage == 0) of.came[one] = static_cast<float>(1000 * step + one);
      else if (stages_[stage].forward_in.empty()) of.came[one] = values_[stage - 1].made[one];
      EXPECT_EQ(of.came[one], static_cast<float>(1000 * step + one + stage * (stage - 1) / 2)) << to_text(action);
      of.made[one] = of.came[one] + static_cast<float>(stage);
    }
    if (action.work == StageWork::backward || action.work == StageWork::input_gradient) {
      if (last) of.came_back[one] = static_cast<float>(step + one);
      else if (stages_[stage].backward_in.empty()) of.came_back[one] = values_[stage + 1].given_back[one];
      EXPECT_EQ(of.came_back[one], static_cast<float>((step + one) * (1 << (schedule_.stages - 1 - stage))))
          << to_text(action);
      of.given_back[one] = 2 * of.came_back[one];
    }
  }

  Rank& rank_;
  const PipelineSchedule& schedule_;
  int slots_;
  std::vector<StageChannels> stages_;
  std::vector<Values> values_;  // by stage
  std::vector<PipelineAction> row_;
};

/// Seconds of the fastest of `steps`.
double run(const PipelineSchedule& schedule, int slots, int steps, const std::function<double(StageWork)>& seconds) {
  double fastest = 1e9;
  const int code = meshrt::launch_threads(static_cast<int>(schedule.ranks.size()), [&](Rank& rank) {
    rank.allocate(0, 0);
    RankOfPipeline part(rank, schedule, slots);
    const meshrt::Group& all = rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}});
    for (int step = 0; step < steps; ++step) {
      meshrt::barrier(rank, all, {});
      const auto start = std::chrono::steady_clock::now();
      part.run(step, seconds);
      meshrt::barrier(rank, all, {});
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (rank.rank() == 0) fastest = std::min(fastest, took.count());
    }
    return 0;
  });
  EXPECT_EQ(code, 0);
  return fastest;
}

TEST(Channels, carry_every_schedule) {
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 3, 4})
      for (const int32_t m : {1, 5, 8})
        for (const Remat remat : {Remat::none, Remat::stage})
          for (const int slots : {1, m}) {
            const std::string name = fmt::format("{}, {} ranks, {} micro-batches, {} slots", one.name, p, m, slots);
            SCOPED_TRACE(name);
            run(with_communication(with_recompute(named(one.name, p, m), remat)).value(), slots, 2,
                [](StageWork) { return 0; });
          }
}

// A boundary's messages in another order at its other end, as lists of users may have them.
TEST(Channels, carry_messages_in_the_order_of_their_receiver) {
  const PipelineSchedule crossed =
      tests::schedule({"0F0 0F1 0F2 0SEND_F2 0SEND_F0 0SEND_F1 0RECV_B2 0RECV_B1 0RECV_B0 0B2 0B1 0B0",
                       "1RECV_F0 1RECV_F1 1RECV_F2 1F2 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1B2 1SEND_B2"});
  EXPECT_TRUE(check_schedule(crossed).empty());
  run(crossed, 3, 3, [](StageWork) { return 0; });
}

// No run is faster than the simulation; other work on this machine makes some slower, so the fastest of several counts.
TEST(Channels, schedules_are_as_fast_as_they_are_simulated) {
  constexpr double unit = 0.004;
  constexpr int32_t p = 4, m = 8;
  struct Timed {
    const NamedSchedule* named;
    double simulated, took = 1e9;
  };
  std::vector<Timed> all;
  for (const NamedSchedule& one : named_schedules()) {
    ScheduleCosts costs;
    costs.ranks.assign(p, {});
    all.push_back({&one, simulate(named(one.name, p, m), costs).makespan});
  }
  std::string wrong = "not run";
  for (int round = 0; round < 20 && !wrong.empty(); ++round) {
    for (Timed& one : all) {
      const PipelineSchedule schedule = with_communication(named(one.named->name, p, m)).value();
      one.took = std::min(one.took, run(schedule, m, 1, [&](StageWork work) {
                            return (work == StageWork::backward ? 2 : 1) * unit / one.named->chunks;
                          }));
      EXPECT_GE(one.took, one.simulated * unit * 0.999) << one.named->name;
    }
    wrong.clear();
    for (const Timed& fast : all)
      for (const Timed& slow : all)
        if (slow.simulated > 1.2 * fast.simulated && slow.took <= fast.took)
          wrong = fmt::format("{} took {} s, {} {} s", fast.named->name, fast.took, slow.named->name, slow.took);
  }
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace mesh
