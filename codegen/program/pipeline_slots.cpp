#include "codegen/program/pipeline_slots.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/walk.h"
#include "codegen/schedule/check_schedule.h"
#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"

namespace mesh {

namespace {

/// F after F, for stages that have no B.
PipelineSchedule forward_alone(int32_t stages, int32_t micro_batches) {
  PipelineSchedule schedule{stages, micro_batches, {}};
  for (int32_t rank = 0; rank < stages; ++rank) {
    schedule.ranks.emplace_back();
    for (int32_t one = 0; one < micro_batches; ++one) schedule.ranks.back().push_back({ActionKind::forward, rank, one});
  }
  return schedule;
}

bool is_backward(const Step& action) { return std::get<ActionStep>(action.what).kind != ActionKind::forward; }

}  // namespace

PipelineOrder order_of(const Program& program, const ForStep& loop) {
  const Pipeline& pipeline = program.sharded.layout.pipeline;
  const bool both = std::ranges::any_of(loop.body, is_backward);
  const PipelineSchedule lists =
      both ? pipeline.lists : forward_alone(pipeline.lists.stages, static_cast<int32_t>(loop.turns));
  if (both && !check_schedule(lists).empty())
    internal_error("schedule " + pipeline.schedule + ": " + check_schedule(lists).front().message);
  const std::optional<PipelineSchedule> whole = with_communication(lists);
  if (!whole) internal_error("the ranks of schedule " + pipeline.schedule + " wait for each other");
  return {pipeline.axis, *whole};
}

int64_t slots_of(const PipelineOrder& order) {
  const bool both = std::ranges::any_of(order.schedule.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, frees_activations, &Action::kind);
  });
  return both ? ring_of(order.schedule) : std::min(2, order.schedule.micro_batches);
}

std::vector<const MessageStep*> handed_on(const ForStep& pipeline) {
  std::vector<const MessageStep*> messages;
  for_each_step(pipeline.body, [&](const Step& step) {
    if (const auto* message = std::get_if<MessageStep>(&step.what); message && message->sends)
      messages.push_back(message);
  });
  return messages;
}

namespace {

/// Where a buffer is used.
struct Uses {
  int all = 0, forward = 0, backward = 0;
  bool sent = false, begins_written = false;
};

class Slots {
 public:
  explicit Slots(Program& program) : program_(program), outlives_(outlive_routine(program)) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (Step& step : steps)
        if (auto* loop = std::get_if<ForStep>(&step.what); loop && loop->order) give(*loop);
    });
  }

 private:
  void give(ForStep& loop) {
    std::vector<Uses> uses(program_.buffers.size());
    const auto look = [&](const Step& step, const auto& note) {
      if (!has_bodies(step))
        for_each_access(step, [&](const Access& access, Use use) {
          note(uses[storage(program_, access.buffer).index], use, std::holds_alternative<MessageStep>(step.what));
        });
    };
    for (const Routine& routine : program_.routines)
      for_each_step(routine.steps, [&](const Step& step) { look(step, [](Uses& of, Use, bool) { ++of.all; }); });
    for (const Step& action : loop.body)
      for_each_step(std::get<ActionStep>(action.what).body, [&](const Step& step) {
        look(step, [&](Uses& of, Use use, bool message) {
          if (of.forward + of.backward == 0) of.begins_written = use == Use::write;
          ++(is_backward(action) ? of.backward : of.forward);
          of.sent = of.sent || message;
        });
      });
    const auto needs_slots = [&](const Access& access) {
      const BufferId root = storage(program_, access.buffer);
      const Uses& of = uses[root.index];
      return of.all == of.forward + of.backward && of.begins_written && !outlives_[root.index] &&
             ((of.forward > 0 && of.backward > 0) || of.sent);
    };
    const int64_t count = slots_of(*loop.order);
    for (Step& action : loop.body)
      for_each_access(action, [&](Access& access, Use) {
        if (!needs_slots(access)) return;
        access.turns.insert(access.turns.begin(), TurnIndex(loop.loop, 0, count));
        for (IndexMap& map : access.maps) ++map.position;
        widened_.push_back(storage(program_, access.buffer));
      });
    widen(std::ranges::any_of(loop.body, is_backward) ? "in_flight" : "sent_ahead", count);
  }

  /// The buffers of the pipeline that was looked at, and what is a view of them.
  void widen(const std::string& name, int64_t count) {
    if (widened_.empty()) return;
    Graph& graph = program_.sharded.graph;
    const auto same = [&](const Dim& dim) { return dim.name == name && dim.size == count; };
    const auto known = std::ranges::find_if(graph.dims, same);
    const DimId slots = known != graph.dims.end() ? DimId{static_cast<uint32_t>(known - graph.dims.begin())}
                                                  : GraphBuilder(graph).dim(name, count);
    for (uint32_t i = 0; i < program_.buffers.size(); ++i)
      if (std::ranges::count(widened_, storage(program_, {i})) > 0)
        program_.buffers[i].dims.insert(program_.buffers[i].dims.begin(), {slots, {}});
    widened_.clear();
  }

  Program& program_;
  const std::vector<bool> outlives_;
  std::vector<BufferId> widened_;
};

}  // namespace

void add_pipeline_slots(Program& program) { Slots(program).run(); }

meshrt::PipelineInfo pipeline_info(const Program& program) {
  meshrt::PipelineInfo info;
  const Layout& layout = program.sharded.layout;
  for_each_step(program.routines[program.step().run].steps, [&](const Step& step) {
    if (const auto* loop = std::get_if<ForStep>(&step.what); loop && loop->order)
      info = {layout.mesh.axes[loop->order->axis].name, layout.pipeline.schedule, static_cast<int>(loop->turns),
              static_cast<int>(slots_of(*loop->order))};
  });
  return info;
}

}  // namespace mesh
