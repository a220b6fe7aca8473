// Schedules that take the weights' gradients (W) apart from the inputs' (I): nobody waits for a W, so it fills what
// would be a bubble.
#include <algorithm>

#include "codegen/schedule/named_schedules.h"

namespace mesh {

namespace {

/// The list of one rank, each stage's passes in the order of micro-batches.
class RankList {
 public:
  explicit RankList(int32_t micro_batches) : micro_batches_(micro_batches) {}

  /// The stage's next of this kind, if it has one. Those of micro-batches that there are not only count.
  void next(ActionKind kind, int32_t stage, int32_t counted) {
    int32_t& done = done_of(kind, stage);
    if (done < counted && done < micro_batches_) actions_.push_back({kind, stage, done});
    if (done < counted) ++done;
  }
  int32_t done(ActionKind kind, int32_t stage) { return done_of(kind, stage); }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  int32_t& done_of(ActionKind kind, int32_t stage) {
    for (auto& [key, count] : done_)
      if (key == std::pair(kind, stage)) return count;
    return done_.emplace_back(std::pair(kind, stage), 0).second;
  }

  const int32_t micro_batches_;
  std::vector<Action> actions_;
  std::vector<std::pair<std::pair<ActionKind, int32_t>, int32_t>> done_;
};

constexpr auto F = ActionKind::forward, I = ActionKind::input_gradient, W = ActionKind::weight_gradient;

/// RankList r runs `hops` forward passes ahead for each rank behind it, and lets `hops` W wait for each rank before it.
PipelineSchedule horizontal(const ScheduleShape& shape, int32_t hops) {
  const int32_t m = shape.micro_batches;
  PipelineSchedule schedule{shape.ranks, m, {}};
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    RankList list(m);
    for (int32_t i = 0; i < hops * (shape.ranks - 1 - rank); ++i) list.next(F, rank, m);
    for (int32_t i = 0; i < m; ++i) {
      list.next(F, rank, m);
      list.next(I, rank, m);
      if (list.done(I, rank) > hops * rank) list.next(W, rank, m);
    }
    while (list.done(W, rank) < m) list.next(W, rank, m);
    schedule.ranks.push_back(list.take());
  }
  return schedule;
}

}  // namespace

PipelineSchedule make_zb_h1(const ScheduleShape& shape) { return horizontal(shape, 1); }

PipelineSchedule make_zb_h2(const ScheduleShape& shape) { return horizontal(shape, 2); }

PipelineSchedule make_zb_v(const ScheduleShape& shape) {
  const int32_t p = shape.ranks, counted = std::max(2 * p - 1, shape.micro_batches);
  PipelineSchedule schedule{2 * p, shape.micro_batches, {}};
  for (int32_t rank = 0; rank < p; ++rank) {
    const int32_t down = rank, up = 2 * p - 1 - rank;
    RankList list(shape.micro_batches);
    const auto make = [&](std::initializer_list<std::pair<ActionKind, int32_t>> actions) {
      for (const auto& [kind, stage] : actions) list.next(kind, stage, counted);
    };
    for (int32_t i = 0; i < 2 * (p - rank) - 1; ++i) make({{F, down}});
    for (int32_t i = 0; i < rank; ++i) make({{F, up}, {F, down}});
    for (int32_t i = 0; i < p - rank; ++i) make({{F, up}, {I, up}, {W, up}});
    while (list.done(F, up) < counted) make({{F, down}, {I, down}, {W, down}, {F, up}, {I, up}, {W, up}});
    for (int32_t i = 0; i < rank; ++i) make({{I, down}, {I, up}});
    for (int32_t i = 0; i < p - rank; ++i) make({{I, down}, {W, down}});
    while (list.done(W, up) < counted) make({{W, up}});
    while (list.done(W, down) < counted) make({{W, down}});
    schedule.ranks.push_back(list.take());
  }
  return schedule;
}

}  // namespace mesh
