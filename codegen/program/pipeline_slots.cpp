#include "codegen/program/pipeline_slots.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/graph/builder.h"
#include "codegen/layout/cut.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
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
  std::optional<WithMessages> whole = with_messages(lists, pipeline.waiting);
  if (!whole) internal_error("the ranks of schedule " + pipeline.schedule + " wait for each other");
  const Messages messages = handed_on(loop);
  for (std::vector<Action>& actions : whole->schedule.ranks)
    std::erase_if(actions, [&](const Action& one) { return is_idle(messages, one); });
  const int32_t slots = slots_of_messages(lists, whole->waiting);
  PipelineOrder order{pipeline.axis, std::move(whole->schedule), slots, {}, stage, {}};
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

std::optional<int32_t> stage_of(const PipelineOrder& order, const BranchStep& branch) {
  const auto where = std::ranges::find(branch.at, order.axis, &Where::axis);
  if (where == branch.at.end() || where->owner || where->coordinates.size() != 1) return std::nullopt;
  if (order.stage && !branch.stage) return std::nullopt;
  const auto rank = static_cast<int>(where->coordinates.front());
  const int32_t stage = order.schedule.stage_on(rank, branch.stage ? branch.stage->number : 0);
  if (stage < 0) internal_error("a branch on a stage that its rank lacks");
  return stage;
}

namespace {

/// Calls visit(access, use, action, stage) for each access of the pipeline's steps that is no body's; `stage`: in whose
/// actions alone it is made, or nothing.
template <class Visit>
void for_each_use(const ForStep& pipeline, Visit visit) {
  for (const Step& step : pipeline.body) {
    const auto& action = std::get<ActionStep>(step.what);
    std::vector<std::optional<int32_t>> around{std::nullopt};
    const auto enter = [&](const Step& outer, const Steps&) {
      const auto* branch = std::get_if<BranchStep>(&outer.what);
      const auto stage = branch ? stage_of(*pipeline.order, *branch) : std::nullopt;
      around.push_back(stage ? stage : around.back());
    };
    walk(
        action.body,
        [&](const Step& inner) {
          if (!has_bodies(inner))
            for_each_access(inner,
                            [&](const Access& access, Use use) { visit(inner, access, use, action, around.back()); });
        },
        enter, [&](const Step&, const Steps&) { around.pop_back(); });
  }
}

/// What the F of a micro-batch that keeps does for R is of R, where the others' F does not the same.
SlotUse slot_use(const std::set<SlotUse>& known, const ActionStep& action, std::optional<int32_t> stage) {
  const SlotUse use{action.kind, stage};
  return action.keeps && !known.contains(use) ? SlotUse{ActionKind::recompute, stage} : use;
}

}  // namespace

std::set<SlotUse> uses_of(const Program& program, const ForStep& pipeline, BufferId buffer) {
  std::set<SlotUse> uses;
  const BufferId root = storage(program, buffer);
  for_each_use(pipeline, [&](const Step&, const Access& access, Use, const ActionStep& action, auto stage) {
    if (storage(program, access.buffer) == root) uses.insert(slot_use(uses, action, stage));
  });
  return uses;
}

const LocalDim& slots_of(const Program& program, const ForStep& pipeline, const MessageStep& message) {
  return program.buffer(message.value.buffer).dims[pipeline.order->stage ? 1 : 0];
}

namespace {

/// Where a buffer is used.
struct Uses {
  int all = 0, inside = 0;  // inside the pipeline
  std::set<SlotUse> uses;   // by its actions
  bool sent_up = false, sent_down = false, begins_written = false;
  bool of_one_stage = true;  // each stage that writes it does so alone
  bool is_sent() const { return sent_up || sent_down; }
  std::set<ActionKind> actions() const {
    std::set<ActionKind> all;
    for (const SlotUse& use : uses) all.insert(use.kind);
    return all;
  }
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
    PipelineOrder& order = *loop.order;
    std::map<BufferId, DimId> rings;
    std::map<DimId, int> accesses;  // of all that have it
    std::set<BufferId> by_stage;
    for (Step& action : loop.body)
      for_each_access(action, [&](Access& access, Use) {
        const BufferId root = storage(program_, access.buffer);
        const Uses& of = uses_[root.index];
        if (!needs_slots(of) || outlives_[root.index]) return;
        if (!rings.contains(root)) rings[root] = ring_of(order, of);
        ++accesses[rings[root]];
        add(access, {loop.loop, 0, program_.sharded.graph.dim(rings[root]).size});
        if (!order.stage || !needs_stages(of, root)) return;
        add(access, {order.stage});
        by_stage.insert(root);
      });
    if (rings.empty()) return;
    order.ring = std::ranges::max_element(accesses, {}, [](const auto& one) { return one.second; })->first;
    for (uint32_t i = 0; i < program_.buffers.size(); ++i) {
      const BufferId root = storage(program_, {i});
      std::vector<LocalDim>& dims = program_.buffers[i].dims;
      if (const auto ring = rings.find(root); ring != rings.end()) dims.insert(dims.begin(), {ring->second, {}});
      if (by_stage.contains(root)) dims.insert(dims.begin(), order.stages);
    }
  }

  void find_uses(const ForStep& loop) {
    uses_.assign(program_.buffers.size(), {});
    for (const Routine& routine : program_.routines)
      for_each_step(routine.steps, [&](const Step& step) {
        if (!has_bodies(step)) for_each_access(step, [&](const Access& access, Use) { ++of(access).all; });
      });
    for_each_use(loop, [&](const Step& step, const Access& access, Use use, const ActionStep& action, auto stage) {
      Uses& uses = of(access);
      if (uses.inside++ == 0)
        uses.begins_written = use == Use::write || is_running_sum(program_, step, storage(program_, access.buffer));
      uses.uses.insert(slot_use(uses.uses, action, stage));
      if (const auto* message = std::get_if<MessageStep>(&step.what))
        (message->down ? uses.sent_down : uses.sent_up) = true;
      if (use != Use::read && !stage) uses.of_one_stage = false;
    });
  }

  Uses& of(const Access& access) { return uses_[storage(program_, access.buffer).index]; }

  static bool needs_slots(const Uses& of) {
    return of.all == of.inside && of.begins_written && (of.actions().size() > 1 || of.is_sent());
  }

  /// What is not sent lives from the first action that uses it to the last.
  DimId ring_of(const PipelineOrder& order, const Uses& of) {
    if (!of.is_sent()) {
      const std::set<ActionKind> actions = of.actions();
      return dim_of(program_, "in_flight", mesh::ring_of(order.schedule, *actions.begin(), *actions.rbegin()));
    }
    int32_t ring = order.slots;
    for (const bool forward : {true, false})
      if (forward ? of.sent_up : of.sent_down) ring = std::max(ring, ring_of_message(order.schedule, forward, of.uses));
    return dim_of(program_, "handed_on", ring);
  }

  /// What several stages of a rank make each for itself, but for what lies turn by turn: turns are of one stage.
  bool needs_stages(const Uses& of, BufferId root) const {
    const ShardedGraph& sharded = program_.sharded;
    return !of.of_one_stage && std::ranges::none_of(program_.buffer(root).dims, [&](const LocalDim& local) {
      return layers_over(sharded.graph, sharded.layout.pipeline, local.dim).has_value();
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
              mesh::ring_of(loop->order->schedule)};
  });
  return info;
}

}  // namespace mesh
