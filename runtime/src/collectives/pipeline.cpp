#include "meshrt/pipeline.h"

#include <fmt/format.h>

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

/// What a pass needs, and where it puts what it hands on.
void await(Ends& in, Ends& out, int micro_batch) {
  for (ChannelEnd& end : in) end.wait(micro_batch);
  for (ChannelEnd& end : out) end.make_room(micro_batch);
}

void run(const PipelineAction& action, StageChannels& stage,
         const std::function<void(const PipelineAction&)>& compute) {
  switch (action.work) {
    case StageWork::send_forward: return start(stage.forward_out, action);
    case StageWork::receive_forward: return start(stage.forward_in, action);
    case StageWork::send_backward: return start(stage.backward_out, action);
    case StageWork::receive_backward: return start(stage.backward_in, action);
    case StageWork::forward: await(stage.forward_in, stage.forward_out, action.micro_batch); break;
    case StageWork::backward:
    case StageWork::input_gradient: await(stage.backward_in, stage.backward_out, action.micro_batch); break;
    case StageWork::recompute:
    case StageWork::weight_gradient: break;
  }
  compute(action);
}

}  // namespace

void run_row(std::span<const PipelineAction> row, std::span<StageChannels> stages,
             const std::function<void(const PipelineAction&)>& compute) {
  for (const PipelineAction& action : row) {
    const Noted noted(action);
    run(action, stages[static_cast<size_t>(action.stage)], compute);
  }
  for (StageChannels& stage : stages)
    for (Ends* const ends : {&stage.forward_in, &stage.forward_out, &stage.backward_in, &stage.backward_out})
      for (ChannelEnd& end : *ends) end.finish();
  if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->action(0);
}

}  // namespace meshrt
