#include "codegen/program/pipeline_slots.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/graph/builder.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/walk.h"
#include "codegen/schedule/check_schedule.h"
#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"

namespace mesh {

namespace {

/// A dim of slots, the same for all buffers that have so many.
DimId dim_of(Program& program, const std::string& name, int64_t size) {
  Graph& graph = program.sharded.graph;
  const auto same = [&](const Dim& dim) { return dim.name == name && dim.size == size; };
  const auto known = std::ranges::find_if(graph.dims, same);
  return known != graph.dims.end() ? DimId{static_cast<uint32_t>(known - graph.dims.begin())}
                                   : GraphBuilder(graph).dim(name, size);
}

using Messages = std::vector<const MessageStep*>;  // what a pipeline's stages hand on

/// Whether some value goes from the one stage to the other.
bool is_crossed(const Messages& messages, int32_t from, int32_t to) {
  return std::ranges::any_of(messages, [&](const MessageStep* message) {
    return message->down == (to < from) && message->among.has(from) && message->among.has(to);
  });
}

/// Whether the action is a message between stages of which nothing goes from the one to the other: as gradients do not
/// to stages in which nothing is trained.
bool is_idle(const Messages& messages, const Action& action) {
  const int32_t stage = action.stage;
  switch (action.kind) {
    case ActionKind::send_forward: return !is_crossed(messages, stage, stage + 1);
    case ActionKind::receive_forward: return !is_crossed(messages, stage - 1, stage);
    case ActionKind::send_backward: return !is_crossed(messages, stage, stage - 1);
    case ActionKind::receive_backward: return !is_crossed(messages, stage + 1, stage);
    default: return false;
  }
}

bool is_backward(const Step& action) { return std::get<ActionStep>(action.what).kind != ActionKind::forward; }

}  // namespace

PipelineOrder order_of(Program& program, const ForStep& loop, LoopId stage) {
  const Pipeline& pipeline = program.sharded.layout.pipeline;
  const bool both = std::ranges::any_of(loop.body, is_backward);
  PipelineSchedule lists = pipeline.lists;
  for (std::vector<Action>& actions : lists.ranks)
    if (!both) std::erase_if(actions, [](const Action& one) { return one.kind != ActionKind::forward; });
  if (both && !check_schedule(lists).empty())
    internal_error("schedule " + pipeline.schedule + ": " + check_schedule(lists).front().message);
  const Messages messages = handed_on(loop);
  for (std::vector<Action>& actions : lists.ranks)
    std::erase_if(actions, [&](const Action& one) { return is_idle(messages, one); });
  const int32_t computed_and_sent = 1 + pipeline.waiting.value_or(1);  // of F alone
  std::optional<SlottedSchedule> whole =
      with_fewest_slots(lists, both ? ring_of(lists, pipeline.waiting) : computed_and_sent, pipeline.waiting);
  if (!whole) internal_error("the ranks of schedule " + pipeline.schedule + " wait for each other");
  PipelineOrder order{pipeline.axis, std::move(whole->schedule), whole->slots, stage, {}};
  if (!stage) return order;
  const auto ranks = static_cast<int64_t>(lists.ranks.size());
  const bool in_a_v = lists.rank_of_stage().back() == 0;
  order.stages = {dim_of(program, "stage", lists.stages),
                  {{pipeline.axis}, in_a_v ? meshrt::zigzag(ranks) : meshrt::rounds(ranks, lists.stages / ranks), {}}};
  return order;
}

std::vector<const MessageStep*> handed_on(const ForStep& pipeline) {
  std::vector<const MessageStep*> messages;
  for (const Step& action : pipeline.body)
    if (const auto& of = std::get<ActionStep>(action.what); !of.keeps)
      for_each_step(of.body, [&](const Step& step) {
        if (const auto* message = std::get_if<MessageStep>(&step.what); message && message->sends)
          messages.push_back(message);
      });
  return messages;
}

namespace {

/// Where a buffer is used.
struct Uses {
  int all = 0, inside = 0;       // inside the pipeline
  std::set<ActionKind> actions;  // that use it
  bool sent = false, begins_written = false;
  bool of_one_stage = true;  // each stage that writes it does so alone
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
    find_uses(loop);
    const PipelineOrder& order = *loop.order;
    std::map<BufferId, int32_t> in_flight;  // how many slots
    std::set<BufferId> by_stage;
    for (Step& action : loop.body)
      for_each_access(action, [&](Access& access, Use) {
        const BufferId root = storage(program_, access.buffer);
        const Uses& of = uses_[root.index];
        if (!needs_slots(of) || outlives_[root.index]) return;
        const int32_t slots = in_flight[root] = slots_of(order, of);
        add(access, {loop.loop, 0, slots});
        if (!order.stage || !needs_stages(of, root)) return;
        add(access, {order.stage});
        by_stage.insert(root);
      });
    if (in_flight.empty()) return;
    const bool both = std::ranges::any_of(loop.body, is_backward);
    for (uint32_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferId root = storage(program_, {i});
      std::vector<LocalDim>& dims = program_.buffers[i].dims;
      if (const auto slots = in_flight.find(root); slots != in_flight.end())
        dims.insert(dims.begin(), {dim_of(program_, both ? "in_flight" : "sent_ahead", slots->second), {}});
      if (by_stage.contains(root)) dims.insert(dims.begin(), order.stages);
    }
  }

  void find_uses(const ForStep& loop) {
    uses_.assign(program_.buffers.size(), {});
    for (const Routine& routine : program_.routines)
      for_each_step(routine.steps, [&](const Step& step) {
        if (!has_bodies(step)) for_each_access(step, [&](const Access& access, Use) { ++of(access).all; });
      });
    for (const Step& action : loop.body) {
      std::vector<bool> of_one_stage{false};
      const auto note = [&](const Step& step) {
        if (has_bodies(step)) return;
        for_each_access(step, [&](const Access& access, Use use) {
          Uses& uses = of(access);
          if (uses.inside++ == 0) uses.begins_written = use == Use::write;
          const auto& [kind, body, keeps] = std::get<ActionStep>(action.what);
          uses.actions.insert(keeps && !uses.actions.contains(kind) ? ActionKind::recompute : kind);
          uses.sent = uses.sent || std::holds_alternative<MessageStep>(step.what);
          if (use != Use::read && !of_one_stage.back()) uses.of_one_stage = false;
        });
      };
      const auto enter = [&](const Step& step, const Steps&) {
        const auto* branch = std::get_if<BranchStep>(&step.what);
        of_one_stage.push_back(of_one_stage.back() || (branch && branch->stage && !branch->at.empty()));
      };
      walk(std::get<ActionStep>(action.what).body, note, enter,
           [&](const Step&, const Steps&) { of_one_stage.pop_back(); });
    }
  }

  Uses& of(const Access& access) { return uses_[storage(program_, access.buffer).index]; }

  static bool needs_slots(const Uses& of) {
    return of.all == of.inside && of.begins_written && (of.actions.size() > 1 || of.sent);
  }

  /// A message has a slot until it is taken; what is not sent lives from the first action that uses it to the last.
  static int32_t slots_of(const PipelineOrder& order, const Uses& of) {
    return of.sent ? order.slots : ring_of(order.schedule, *of.actions.begin(), *of.actions.rbegin());
  }

  /// What several stages of a rank make each for itself, but for what lies turn by turn: turns are of one stage.
  bool needs_stages(const Uses& of, BufferId root) const {
    const Pipeline& pipeline = program_.sharded.layout.pipeline;
    return !of.of_one_stage && std::ranges::none_of(program_.buffer(root).dims, [&](const LocalDim& local) {
      return pipeline.loop_over(local.dim).has_value();
    });
  }

  static void add(Access& access, TurnIndex turn) {
    access.turns.insert(access.turns.begin(), turn);
    for (IndexMap& map : access.maps) ++map.position;
  }

  Program& program_;
  const std::vector<bool> outlives_;
  std::vector<Uses> uses_;  // of the pipeline that is looked at
};

}  // namespace

void add_pipeline_slots(Program& program) { Slots(program).run(); }

meshrt::PipelineInfo pipeline_info(const Program& program) {
  meshrt::PipelineInfo info;
  const Layout& layout = program.sharded.layout;
  for_each_step(program.routines[program.step().run].steps, [&](const Step& step) {
    if (const auto* loop = std::get_if<ForStep>(&step.what); loop && loop->order)
      info = {layout.mesh.axes[loop->order->axis].name, layout.pipeline.schedule, static_cast<int>(loop->turns),
              loop->order->slots};
  });
  return info;
}

}  // namespace mesh
