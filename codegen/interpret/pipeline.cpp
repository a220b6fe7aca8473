// pipeline.cpp: a rank of a pipeline makes the actions of its list, and messages go between neighbouring ranks.
#include "meshrt/pipeline.h"

#include <algorithm>
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
  std::vector<std::string> rows;
  for (const std::vector<Action>& actions : order.schedule.ranks) rows.push_back(row_text(actions));
  std::vector<const char*> texts;
  for (const std::string& row : rows) texts.push_back(row.c_str());
  meshrt::Pipeline pipeline(binding.rank, axes_of(binding, {order.axis}).front(), static_cast<int>(loop.turns), texts);
  for (const MessageStep* message : handed_on(loop)) {
    const Buffer& buffer = binding.buffer(message->value);
    const meshrt::Site site{-1, buffer.name.c_str()};
    const meshrt::HandedOn slots{binding.memory(message->value.buffer),
                                 static_cast<int>(binding.extent(slots_of(binding.program, loop, *message)))};
    int64_t count = 1;
    for (const LocalDim& dim : dims_of(binding.program, message->value)) count *= binding.extent(dim);
    const meshrt::StageRange among{message->among.first, message->among.last};
    if (message->down) pipeline.hand_backward(site, slots, count, buffer.type, among);
    else pipeline.hand_forward(site, slots, count, buffer.type, among);
  }
  return pipeline;
}

/// The actions of a row that execute such steps: B is I, then W.
std::vector<meshrt::StageWork> works_of(ActionKind kind) {
  using enum meshrt::StageWork;
  switch (kind) {
    case ActionKind::forward: return {forward};
    case ActionKind::recompute: return {recompute};
    case ActionKind::input_gradient: return {input_gradient, backward};
    case ActionKind::weight_gradient: return {weight_gradient, backward};
    default: return {backward};
  }
}

}  // namespace

Task bind_pipeline(Binding& binding, const ForStep& loop) {
  struct Bound {
    meshrt::Pipeline pipeline;
    std::map<std::pair<meshrt::StageWork, bool>, std::vector<Task>> tasks;  // bool: PipelineAction::keeps
  };
  const auto bound = std::make_shared<Bound>();
  bound->pipeline = pipeline_of(binding, loop);
  for (const Step& step : loop.body) {
    const auto& action = std::get<ActionStep>(step.what);
    const std::vector<Task> tasks = bind_steps(binding, action.body);
    for (const meshrt::StageWork work : works_of(action.kind))
      std::ranges::copy(tasks, std::back_inserter(bound->tasks[{work, action.keeps}]));
  }
  // Where nothing is computed again, the F that keeps is as any other.
  bound->tasks.try_emplace({meshrt::StageWork::forward, true}, bound->tasks[{meshrt::StageWork::forward, false}]);
  int64_t& turn = binding.turns[loop.loop.index];
  int64_t* const stage = loop.order->stage ? &binding.turns[loop.order->stage.index] : nullptr;
  return [bound, &turn, stage] {
    bound->pipeline.run([&](const meshrt::PipelineAction& action) {
      turn = action.micro_batch;
      if (stage) *stage = action.stage;
      for (const Task& task : bound->tasks[{action.work, action.keeps}]) task();
    });
    turn = 0;
  };
}

}  // namespace mesh
