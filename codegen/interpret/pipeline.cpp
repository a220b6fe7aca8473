// pipeline.cpp: a rank of a pipeline makes the actions of its list, and messages go between neighbouring ranks.
#include "meshrt/pipeline.h"

#include <memory>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"
#include "codegen/program/pipeline_slots.h"

namespace mesh {

Task bind_step(Binding&, const MessageStep&) {
  return [] {};  // the list says when
}

Task bind_step(Binding&, const ActionStep&) { internal_error("an action stands in no pipeline"); }

namespace {

meshrt::Pipeline pipeline_of(Binding& binding, const ForStep& loop) {
  const PipelineOrder& order = *loop.order;
  const int64_t stage = binding.mesh().coordinate(binding.rank.rank(), order.axis);
  meshrt::Pipeline pipeline(binding.rank, axes_of(binding, {order.axis}).front(), static_cast<int>(loop.turns),
                            static_cast<int>(slots_of(order)),
                            row_text(order.schedule.ranks[static_cast<size_t>(stage)]));
  for (const MessageStep* message : handed_on(loop)) {
    const Buffer& buffer = binding.buffer(message->value);
    const meshrt::Site site{-1, buffer.name.c_str()};
    std::byte* const first = binding.memory(message->value.buffer);
    int64_t count = 1;
    for (const LocalDim& dim : dims_of(binding.program, message->value)) count *= binding.extent(dim);
    if (message->down) pipeline.hand_backward(site, first, count, buffer.type);
    else pipeline.hand_forward(site, first, count, buffer.type);
  }
  return pipeline;
}

}  // namespace

Task bind_pipeline(Binding& binding, const ForStep& loop) {
  struct Bound {
    meshrt::Pipeline pipeline;
    std::vector<Task> forward, backward;
  };
  const auto bound = std::make_shared<Bound>();
  bound->pipeline = pipeline_of(binding, loop);
  for (const Step& step : loop.body) {
    const auto& action = std::get<ActionStep>(step.what);
    (action.kind == ActionKind::forward ? bound->forward : bound->backward) = bind_steps(binding, action.body);
  }
  int64_t& turn = binding.turns[loop.loop.index];
  return [bound, &turn] {
    bound->pipeline.run([&](const meshrt::PipelineAction& action) {
      turn = action.micro_batch;
      for (const Task& task : action.work == meshrt::StageWork::forward ? bound->forward : bound->backward) task();
    });
    turn = 0;
  };
}

}  // namespace mesh
