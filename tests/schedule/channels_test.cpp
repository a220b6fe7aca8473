// Rows of all named schedules, carried out by ranks over channels: what comes to each action is what the stage beside
// it has made of it. Where that is the time at which it was made, the ranks end when the simulation says.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "codegen/schedule/check_schedule.h"
#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/simulate.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "meshrt/pipeline.h"
#include "tests/schedule/lists.h"
#include "tests/schedule/ranks.h"

namespace mesh {
namespace {

using meshrt::PipelineAction, meshrt::Rank, meshrt::StageWork;
using tests::Kernels, tests::named, tests::RankOfPipeline;

using After = std::function<void(Rank&, Kernels&)>;

/// Runs so many steps, with kernels for each rank anew.
void run(
    const PipelineSchedule& schedule, int slots, int steps, const std::function<std::unique_ptr<Kernels>(int)>& make,
    const After& after = [](Rank&, Kernels&) {}) {
  const int code = meshrt::launch_threads(static_cast<int>(schedule.ranks.size()), [&](Rank& rank) {
    rank.allocate(RankOfPipeline::arena_bytes(schedule), 0);
    for (int step = 0; step < steps; ++step) {
      const std::unique_ptr<Kernels> kernels = make(step);
      RankOfPipeline(rank, schedule, slots, *kernels).run();
      after(rank, *kernels);
    }
    return 0;
  });
  EXPECT_EQ(code, 0);
}

/// A stage adds its number to what comes forward, and hands back twice what comes backward.
class Numbers final : public Kernels {
 public:
  Numbers(int32_t stages, int step) : stages_(stages), step_(step) {}
  float forward(int32_t stage, int32_t one, float came) override {
    const int begin = 1000 * step_ + one;
    if (stage > 0) {
      EXPECT_EQ(came, static_cast<float>(begin + stage * (stage - 1) / 2)) << stage << "F" << one;
    }
    return static_cast<float>(stage) + (stage > 0 ? came : static_cast<float>(begin));
  }
  float backward(StageWork, int32_t stage, int32_t one, float came) override {
    const int end = step_ + one;
    if (stage + 1 < stages_) {
      EXPECT_EQ(came, static_cast<float>(end * (1 << (stages_ - 1 - stage)))) << stage << "B" << one;
    }
    return 2 * (stage + 1 < stages_ ? came : static_cast<float>(end));
  }

 private:
  int32_t stages_;
  int step_;
};

/// A rank's clock: each pass begins when what it needs was made, and hands on when it has ended.
class Clock final : public Kernels {
 public:
  Clock(int32_t stages, StageCosts costs) : stages_(stages), costs_(costs) {}
  float forward(int32_t stage, int32_t, float came) override { return pass(stage > 0 ? came : 0, costs_.forward); }
  float backward(StageWork work, int32_t stage, int32_t, float came) override {
    const double whole = work == StageWork::backward ? costs_.weight_gradient : 0;
    return pass(stage + 1 < stages_ ? came : 0, costs_.input_gradient + whole);
  }
  void other(StageWork work) override {
    pass(0, work == StageWork::recompute ? costs_.recompute : costs_.weight_gradient);
  }
  float now = 0;

 private:
  float pass(float made, double cost) { return now = std::max(now, made) + static_cast<float>(cost); }

  int32_t stages_;
  StageCosts costs_;  // of one stage
};

auto numbers(const PipelineSchedule& schedule) {
  return [&schedule](int step) { return std::make_unique<Numbers>(schedule.stages, step); };
}

TEST(Channels, rows_are_read_as_lists_are_written) {
  const std::string text = "0F0 0R10 2B3 0I1 0W1 0SEND_F0 1RECV_F0 1SEND_B0 0RECV_B12";
  std::string again;
  for (const PipelineAction& one : meshrt::parse_row(text)) {
    EXPECT_EQ(meshrt::action_text(one.word()), to_text(one));
    again += (again.empty() ? "" : " ") + to_text(one);
  }
  EXPECT_EQ(again, text);
  EXPECT_EQ(row_text({{ActionKind::forward, 0, 0}, {}, {ActionKind::send_forward, 0, 0}}), "0F0 0SEND_F0");
  for (const char* wrong : {"F0", "0F", "0X1", "0F1x", "0UNSHARD", "0F-1", "0F0  0F1"})
    EXPECT_THROW(meshrt::parse_row(wrong), meshrt::Failure) << wrong;
}

TEST(Channels, carry_every_schedule) {
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 3, 4})
      for (const int32_t m : {1, 5, 8})
        for (const Remat remat : {Remat::none, Remat::stage})
          for (const int slots : {1, m}) {
            const std::string name = fmt::format("{}, {} ranks, {} micro-batches, {} slots", one.name, p, m, slots);
            SCOPED_TRACE(name);
            const PipelineSchedule schedule = with_communication(with_recompute(named(one.name, p, m), remat)).value();
            run(schedule, slots, 2, numbers(schedule));
          }
}

// A boundary's messages in another order at its other end, as lists of users may have them.
TEST(Channels, carry_messages_in_the_order_of_their_receiver) {
  const PipelineSchedule crossed =
      tests::schedule({"0F0 0F1 0F2 0SEND_F2 0SEND_F0 0SEND_F1 0RECV_B2 0RECV_B1 0RECV_B0 0B2 0B1 0B0",
                       "1RECV_F0 1RECV_F1 1RECV_F2 1F2 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1B2 1SEND_B2"});
  EXPECT_TRUE(check_schedule(crossed).empty());
  run(crossed, 3, 3, numbers(crossed));
}

TEST(Channels, schedules_take_as_long_as_they_are_simulated) {
  std::map<std::string, double> makespans;  // of 4 ranks and 8 micro-batches
  for (const NamedSchedule& one : named_schedules())
    for (const int32_t p : {1, 2, 4})
      for (const int32_t m : {1, 4, 8})
        for (const Remat remat : {Remat::none, Remat::except_last}) {
          ScheduleCosts costs;
          costs.ranks.assign(p, {1, 1, 1, 1});
          const PipelineSchedule schedule = with_communication(with_recompute(named(one.name, p, m), remat)).value();
          const double share = 1.0 / one.chunks, simulated = simulate(schedule, costs).makespan;
          run(
              schedule, 1, 1,
              [&](int) {
                return std::make_unique<Clock>(schedule.stages, StageCosts{share, share, share, share});
              },
              [&](Rank& rank, Kernels& kernels) {
                float end = static_cast<Clock&>(kernels).now;
                const meshrt::Group& all = rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}});
                meshrt::all_reduce(rank, all, {}, &end, 1, meshrt::Type::f32, meshrt::Reduce::max);
                EXPECT_EQ(end, simulated) << one.name << " " << p << " " << m;
              });
          if (p == 4 && m == 8 && remat == Remat::none) makespans[one.name] = simulated;
        }
  EXPECT_LT(makespans["zb_v"], makespans["zb_h1"]);
  EXPECT_LT(makespans["zb_h1"], makespans["interleaved"]);
  EXPECT_LT(makespans["interleaved"], makespans["1f1b"]);
}

/// Numbers, but stage 3 fails at its first forward pass.
class Failing final : public Kernels {
 public:
  explicit Failing(std::atomic<int>& before) : before_(before) {}
  float forward(int32_t stage, int32_t, float) override {
    if (stage == 3) throw meshrt::Failure(meshrt::Cause::usage, "stage 3 has failed");
    before_ += stage == 2;
    return 0;
  }
  float backward(StageWork, int32_t stage, int32_t, float) override {
    ADD_FAILURE() << "a gradient of stage " << stage;
    return 0;
  }

 private:
  std::atomic<int>& before_;
};

// One rank's failure ends the job with one message, and nobody waits for what it would have sent.
TEST(Channels, a_stage_that_fails_ends_all) {
  for (const char* const name : {"gpipe", "1f1b", "zb_h1"}) {
    const PipelineSchedule schedule = with_communication(named(name, 4, 3)).value();
    std::atomic<int> before = 0;  // forward passes of the stage in front
    testing::internal::CaptureStderr();
    const int code = meshrt::launch_threads(4, [&](Rank& rank) {
      rank.allocate(RankOfPipeline::arena_bytes(schedule), 0);
      Failing kernels(before);
      RankOfPipeline(rank, schedule, 1, kernels).run();
      return 0;
    });
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("stage 3 has failed")) << name;
    EXPECT_NE(code, 0) << name;
    EXPECT_GE(before, 1) << name;
    EXPECT_LE(before, 3) << name;
  }
}

}  // namespace
}  // namespace mesh
