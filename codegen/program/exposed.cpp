#include "codegen/program/exposed.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "codegen/program/combine.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

/// A rank on its way through a list of steps.
class Clock {
 public:
  Clock(const Program& program, const std::map<uint32_t, double>& calls) : program_(program), calls_(calls) {}

  void run(const Steps& steps) {
    for (const Step& step : steps) {
      const auto moved = movements(step);
      if (!moved.empty()) {
        collective(moved.front());
      } else if (const ForStep* loop = std::get_if<ForStep>(&step.what)) {
        if (hands_over(*loop) || reaches_out(*loop)) {
          for (int64_t turn = 0; turn < loop->made(); ++turn) {
            const bool is_last = turn == loop->made() - 1;
            if (turn == 0) first_turns_.insert(loop->loop);
            if (is_last) last_turns_.insert(loop->loop);
            run(loop->body);
            first_turns_.erase(loop->loop);
          }
          last_turns_.erase(loop->loop);
          continue;
        }
        Clock turn(program_, calls_);  // turns are alike: each begins with what its steps start
        turn.run(loop->body);
        const auto turns =
            static_cast<double>(loop->own ? largest_extent(program_, {loop->dim, *loop->own}) : loop->turns);
        now_ += turns * turn.now_;
        waited_ += turns * turn.waited_;
      } else if (const BranchStep* branch = std::get_if<BranchStep>(&step.what)) {
        run(branch->body);
      } else if (const OnePassStep* pass = std::get_if<OnePassStep>(&step.what)) {
        run(pass->body);
      }
      if (const AttentionStep::Ring* ring = ring_of(step)) parts_pass(*ring, step.seconds);
      now_ += step.seconds;
    }
  }
  double waited() const { return waited_; }

 private:
  using Phase = CollectiveStep::Phase;

  /// Whether a turn, or the last one, leaves a call under way, or waits for one that it has not started.
  static bool reaches_out(const ForStep& loop) {
    bool last_turn_does = false;
    for_each_step(loop.body, [&](const Step& step) {
      const auto moved = movements(step);
      last_turn_does = last_turn_does || (!moved.empty() && moved.front().last_turn == loop.loop);
    });
    if (last_turn_does) return true;
    std::set<uint32_t> started;
    for (const Step& step : loop.body) {
      const auto moved = movements(step);
      if (is_in(step, Phase::start)) started.insert(moved.front().step);
      if (is_in(step, Phase::wait) && started.erase(moved.front().step) == 0) return true;
    }
    return !started.empty();
  }

  void parts_pass(const AttentionStep::Ring& ring, double work) {
    double passing = 0;
    for (const uint32_t one : ring.steps)
      if (const auto seconds = calls_.find(one); seconds != calls_.end()) passing += seconds->second;
    const auto turns = static_cast<double>(ring.meets.size());
    const double wait = std::max(0.0, passing - work * turns / (turns + 1));  // nothing is under way with the last part
    waited_ += wait;
    now_ += wait;
  }

  void collective(const CollectiveStep& first) {
    if (first.other_turn) {  // nothing is of a turn that there is not
      const std::set<LoopId>& none = first.phase == Phase::start ? last_turns_ : first_turns_;
      if (none.contains(first.other_turn->loop)) return;
    }
    if (first.last_turn && !last_turns_.contains(first.last_turn)) return;
    std::deque<double>& ends = ends_[first.step];
    if (first.phase != Phase::wait) {
      const auto seconds = calls_.find(first.step);
      all_end_ = std::max(all_end_, now_) + (seconds == calls_.end() ? 0 : seconds->second);
      ends.push_back(all_end_);
    }
    if (first.phase == Phase::start) return;
    const double wait = ends.empty() ? 0 : std::max(0.0, ends.front() - now_);
    if (!ends.empty()) ends.pop_front();
    waited_ += wait;
    now_ += wait;
  }

  const Program& program_;
  const std::map<uint32_t, double>& calls_;      // seconds of one execution
  std::map<uint32_t, std::deque<double>> ends_;  // of those that were started, in turn
  double now_ = 0, all_end_ = 0, waited_ = 0;
  std::set<LoopId> first_turns_, last_turns_;  // of loops of which that turn is under way
};

}  // namespace

double exposed_seconds(const Program& program, const Prediction& prediction) {
  std::map<uint32_t, double> calls;
  for (const PlannedCollective& one : prediction.collectives) calls[one.call] += one.seconds;
  Clock clock(program, calls);
  clock.run(program.routines[program.step().run].steps);
  return clock.waited();
}

StepTime step_time(const Program& program, const Prediction& prediction) {
  StepTime time{prediction.compute_seconds, exposed_seconds(program, prediction), 0};
  if (const std::optional<PlannedPipeline>& pipeline = prediction.pipeline) {
    time.exposed += static_cast<double>(pipeline->micro_batches) * pipeline->slowest().work.communication;
    time.bubble = pipeline->bubble_seconds();
  }
  return time;
}

Prediction predict(const Program& program) { return predict(program.sharded, calls_of_reshards(program)); }

StepCost step_cost(const Program& program, const Prediction& prediction) {
  return {step_time(program, prediction).total(), program.memory.peak(), bytes_sent(prediction)};
}

StepCost step_cost(const Program& program) { return step_cost(program, predict(program)); }

}  // namespace mesh
