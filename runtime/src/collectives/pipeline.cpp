#include "meshrt/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "collectives/injected_faults.h"
#include "meshrt/failure.h"
#include "meshrt/profile.h"
#include "report/flight_recorder.h"

namespace meshrt {

namespace {

using Ends = std::vector<ChannelEnd>;

/// Says which F of a row have no R, where some row has R.
void mark_kept(std::vector<PipelineAction>& row) {
  std::set<std::pair<int32_t, int32_t>> again;
  for (const PipelineAction& action : row)
    if (action.work == StageWork::recompute) again.emplace(action.stage, action.micro_batch);
  for (PipelineAction& action : row)
    action.keeps = action.work == StageWork::forward && !again.contains({action.stage, action.micro_batch});
}

/// What people see of where the rank is, while it lives.
class Noted {
 public:
  explicit Noted(const PipelineAction& action) : timed_(&StepProfile::actions, Label{action}) {
    if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->action(action.word());
  }

 private:
  struct Label {
    PipelineAction action;
    TraceLabel operator()() const { return {to_text(action)}; }
  };
  Timed<Label> timed_;
};

void start(Ends& ends, const PipelineAction& action) {
  if (ends.empty())
    throw Failure(Cause::usage,
                  fmt::format("a pipeline's row has {}, but its stage has no such channel", to_text(action)));
  for (ChannelEnd& end : ends) end.start(action.micro_batch);
}

void make_room(Ends& ends, int micro_batch) {
  for (ChannelEnd& end : ends) end.make_room(micro_batch);
}

/// What a pass needs, and where it puts what it hands on.
void await(Ends& in, Ends& out, int micro_batch) {
  for (ChannelEnd& end : in) end.wait(micro_batch);
  make_room(out, micro_batch);
}

/// Posts a receive, when what was sent from the same buffer is taken.
void post(Ends& in, Ends& out, const PipelineAction& action) {
  make_room(out, action.micro_batch);
  start(in, action);
}

void run(const PipelineAction& action, StageChannels& stage,
         const std::function<void(const PipelineAction&)>& compute) {
  switch (action.work) {
    case StageWork::send_forward: return start(stage.forward_out, action);
    case StageWork::receive_forward: return post(stage.forward_in, stage.forward_out, action);
    case StageWork::send_backward: return start(stage.backward_out, action);
    case StageWork::receive_backward: return post(stage.backward_in, stage.backward_out, action);
    case StageWork::forward: await(stage.forward_in, stage.forward_out, action.micro_batch); break;
    case StageWork::backward:
    case StageWork::input_gradient: await(stage.backward_in, stage.backward_out, action.micro_batch); break;
    case StageWork::recompute:
    case StageWork::weight_gradient: break;
  }
  compute(action);
}

/// The row of a rank, or of one (-1) for which there are no faults.
void run_all(std::span<const PipelineAction> row, std::span<StageChannels> stages,
             const std::function<void(const PipelineAction&)>& compute, int rank) {
  for (const PipelineAction& action : row) {
    const Noted noted(action);
    if (rank >= 0) signal_at(rank, action);
    run(action, stages[static_cast<size_t>(action.stage)], compute);
  }
  for (StageChannels& stage : stages)
    for (Ends* const ends : {&stage.forward_in, &stage.forward_out, &stage.backward_in, &stage.backward_out})
      for (ChannelEnd& end : *ends) end.finish();
  if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->action(0);
}

}  // namespace

void run_row(std::span<const PipelineAction> row, std::span<StageChannels> stages,
             const std::function<void(const PipelineAction&)>& compute) {
  run_all(row, stages, compute, -1);
}

namespace {

/// Whether the action begins with what goes forward, or back, to its stage.
bool is_reader(const PipelineAction& action, bool back) {
  return back ? action.work == StageWork::backward || action.work == StageWork::input_gradient
              : action.work == StageWork::forward;
}

}  // namespace

void Pipeline::run(const std::function<void(const PipelineAction&)>& compute) {
  run_all(
      row_, stages_,
      [&](const PipelineAction& action) {
        take_from_own(action);
        compute(action);
      },
      rank_->rank());
}

Pipeline::Pipeline(Rank& rank, const Axis& axis, int micro_batches, std::span<const char* const> rows)
    : rank_(&rank), axis_(axis), micro_batches_(micro_batches), coordinate_(rank.rank() / axis.stride % axis.size) {
  bool some_again = false;
  for (int coordinate = 0; coordinate < static_cast<int>(rows.size()); ++coordinate) {
    std::vector<PipelineAction> row = parse_row(rows[static_cast<size_t>(coordinate)]);
    for (const PipelineAction& action : row) {
      const auto stage = static_cast<size_t>(action.stage);
      home_.resize(std::max(home_.size(), stage + 1), -1);
      if (home_[stage] >= 0 && home_[stage] != coordinate)
        throw Failure(Cause::usage, fmt::format("stage {} of a pipeline lies at coordinates {} and {}", stage,
                                                home_[stage], coordinate));
      home_[stage] = coordinate;
    }
    some_again = some_again || std::ranges::count(row, StageWork::recompute, &PipelineAction::work) > 0;
    if (coordinate == coordinate_) row_ = std::move(row);
  }
  if (some_again) mark_kept(row_);
  if (const auto lost = std::ranges::find(home_, -1); lost != home_.end())
    throw Failure(Cause::usage, fmt::format("stage {} of a pipeline lies nowhere", lost - home_.begin()));
  for (auto stage = home_.begin(); stage != home_.end(); ++stage)
    place_.push_back(static_cast<int>(std::count(home_.begin(), stage, *stage)));
  stages_.resize(home_.size());
}

bool Pipeline::is_own(int stage) const { return home_[static_cast<size_t>(stage)] == coordinate_; }

/// The first of the slots that a stage of this rank has of the value.
std::byte* Pipeline::buffers_of(const Value& value, int stage) const {
  return static_cast<std::byte*>(value.at.first) + value.bytes() * place_[static_cast<size_t>(stage)] * value.at.slots;
}

/// An action begins with what an earlier one of this rank has left for it.
void Pipeline::take_from_own(const PipelineAction& action) const {
  for (const auto& [reader, value] : handed_over_) {
    if (reader != action.stage || !is_reader(action, value.back)) continue;
    const int64_t slot = value.bytes() * (action.micro_batch % value.at.slots);
    std::memcpy(buffers_of(value, reader) + slot, buffers_of(value, value.back ? reader + 1 : reader - 1) + slot,
                static_cast<size_t>(value.bytes()));
  }
}

/// Over the channel from stage to stage, at whichever of its ends this rank is.
void Pipeline::connect(std::vector<ChannelEnd>& ends, int from, int to, int number, const Value& value) {
  const auto rank_of = [&](int stage) {
    return rank_->rank() + (home_[static_cast<size_t>(stage)] - coordinate_) * axis_.stride;
  };
  ends.emplace_back(*rank_, ChannelShape{rank_of(from), rank_of(to), number, micro_batches_}, value.site,
                    ChannelBuffers{buffers_of(value, is_own(from) ? from : to), value.bytes(), value.at.slots},
                    value.count, value.type);
}

/// Both ends of a channel come to it here with the same number: all ranks go through the same boundaries in one order.
void Pipeline::hand(const Value& value, StageRange among) {
  const int last = std::min(among.last, static_cast<int>(home_.size()) - 1);
  for (int lower = among.first; lower < last; ++lower) {
    const int from = value.back ? lower + 1 : lower, to = value.back ? lower : lower + 1;
    if (is_own(from) && is_own(to)) {
      handed_over_.emplace_back(to, value);
      continue;
    }
    const int number = channels_[{home_[static_cast<size_t>(from)], home_[static_cast<size_t>(to)]}]++;
    if (!is_own(from) && !is_own(to)) continue;
    StageChannels& own = stages_[static_cast<size_t>(is_own(from) ? from : to)];
    if (is_own(from)) connect(value.back ? own.backward_out : own.forward_out, from, to, number, value);
    else connect(value.back ? own.backward_in : own.forward_in, from, to, number, value);
  }
}

void Pipeline::hand_forward(Site site, HandedOn at, int64_t count, Type type, StageRange among) {
  hand({site, at, count, type, false}, among);
}

void Pipeline::hand_backward(Site site, HandedOn at, int64_t count, Type type, StageRange among) {
  hand({site, at, count, type, true}, among);
}

}  // namespace meshrt
