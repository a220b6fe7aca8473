#include "meshrt/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/injected_faults.h"
#include "meshrt/failure.h"
#include "meshrt/profile.h"
#include "report/flight_recorder.h"

namespace meshrt {

namespace {

using Ends = std::vector<ChannelEnd>;

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

void Pipeline::run(const std::function<void(const PipelineAction&)>& compute) {
  run_all(row_, stages_, compute, rank_->rank());
}

Pipeline::Pipeline(Rank& rank, const Axis& stages, int micro_batches, int buffers, std::string_view row)
    : rank_(&rank),
      axis_(stages),
      micro_batches_(micro_batches),
      buffers_(buffers),
      stage_(rank.rank() / stages.stride % stages.size),
      row_(parse_row(row)),
      stages_(static_cast<size_t>(stages.size)) {}

void Pipeline::connect(std::vector<ChannelEnd>& ends, int from, int to, int number, const Value& value) {
  if (std::min(from, to) < 0 || std::max(from, to) >= axis_.size) return;  // beyond an end of the pipeline
  const auto rank_of = [&](int stage) { return rank_->rank() + (stage - stage_) * axis_.stride; };
  ends.emplace_back(*rank_, ChannelShape{rank_of(from), rank_of(to), number, micro_batches_}, value.site,
                    ChannelBuffers{value.first, value.count * static_cast<int64_t>(size_of(value.type)), buffers_},
                    value.count, value.type);
}

void Pipeline::hand_forward(Site site, void* first, int64_t count, Type type) {
  StageChannels& own = stages_[static_cast<size_t>(stage_)];
  connect(own.forward_in, stage_ - 1, stage_, forward_, {site, first, count, type});
  connect(own.forward_out, stage_, stage_ + 1, forward_, {site, first, count, type});
  ++forward_;
}

void Pipeline::hand_backward(Site site, void* first, int64_t count, Type type) {
  StageChannels& own = stages_[static_cast<size_t>(stage_)];
  connect(own.backward_in, stage_ + 1, stage_, backward_, {site, first, count, type});
  connect(own.backward_out, stage_, stage_ - 1, backward_, {site, first, count, type});
  ++backward_;
}

}  // namespace meshrt
