// lower_actions.cpp: the body of a pipeline's loop over micro-batches becomes its actions: F and B, or F, I and W, with
// R between them where stages compute again. Where the schedule has R for some micro-batches alone, there are two F.
#include <algorithm>
#include <utility>

#include "codegen/program/lowering.h"
#include "codegen/program/stage_turns.h"

namespace mesh {

/// The loop over layers that the step is, or that stands in its branch.
const ForStep* Lowering::layers_in(const Step& step) const {
  if (const auto* loop = std::get_if<ForStep>(&step.what))
    return sharded_.layout.pipeline.loop_over(loop->dim) ? loop : nullptr;
  if (const auto* branch = std::get_if<BranchStep>(&step.what))
    for (const Step& inner : branch->body)
      if (const ForStep* loop = layers_in(inner)) return loop;
  return nullptr;
}

/// F with R in place of its layers, where these give nothing but what goes on; else with R besides. What R computes
/// between two loops goes with the second, and what it computes behind the last one comes at the end: it may read what
/// F made there.
void Lowering::add_forward_that_keeps(Steps& actions) {
  const Steps& forward = std::get<ActionStep>(actions[0].what).body;
  const Steps& again = std::get<ActionStep>(actions[1].what).body;
  ActionStep made{ActionKind::forward, {}, true};
  Steps* const around = std::exchange(steps_, &made.body);
  auto begin = again.begin();
  for (const Step& step : forward) {
    const ForStep* layers = layers_in(step);
    auto end = begin;
    if (layers != nullptr) {
      end = std::find_if(begin, again.end(), [&](const Step& one) {
        const ForStep* loop = layers_in(one);
        return loop != nullptr && loop->dim == layers->dim;
      });
      end = end != again.end() ? end + 1 : begin;
    }
    if (end == begin) made.body.push_back(step);
    else keep_layers(step, {begin, end});
    begin = end;
  }
  made.body.insert(made.body.end(), begin, again.end());
  steps_ = around;
  actions.insert(actions.begin() + 1, Step{std::move(made), Part::forward, {}, {}, {}});
}

/// Whether R goes on with all that F's loop over the dim gives.
bool Lowering::gives_all_of_forward(DimId dim) const {
  const LoopOp *forward = nullptr, *again = nullptr;
  for (const NodeId id : graph_.body(stages_.body()).nodes) {
    const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op);
    if (!loop || loop->dim != dim) continue;
    if (stages_.is_forward(*loop)) forward = loop;
    if (stages_.is_again(*loop)) again = loop;
  }
  const auto is_given = [&](const LoopOp::Carry& carry) {
    return is_handed_on(*forward, carry) &&
           (carry.leaving == carry.entering ||
            std::ranges::find(again->carries, carry.initial, &LoopOp::Carry::initial) != again->carries.end());
  };
  return forward->collects.empty() && std::ranges::all_of(forward->carries, is_given);
}

/// The layers of F, computed by R.
void Lowering::keep_layers(const Step& step, std::span<const Step> again) {
  const DimId dim = layers_in(step)->dim;
  const bool gives_more = !gives_all_of_forward(dim);
  Steps in_front, behind;
  if (const auto* branch = std::get_if<BranchStep>(&step.what)) {
    const auto is_layers = [&](const Step& one) { return layers_in(one) != nullptr; };
    const auto layers = std::ranges::find_if(branch->body, is_layers);
    const auto part = [&](auto begin, auto end) {
      Step some = step;
      std::get<BranchStep>(some.what).body.assign(begin, end);
      return begin == end ? Steps{} : Steps{some};
    };
    in_front = part(branch->body.begin(), gives_more ? layers + 1 : layers);
    behind = part(layers + 1, branch->body.end());
  } else if (gives_more) {
    in_front = {step};
  }
  steps_->insert(steps_->end(), in_front.begin(), in_front.end());
  steps_->insert(steps_->end(), again.begin(), again.end());
  for (const auto& [initial, input] : came_in_) {
    if (gives_more || input.loop != dim) continue;
    at_ = input.at;
    copy(input.kept, input.carry);
  }
  at_ = {};
  steps_->insert(steps_->end(), behind.begin(), behind.end());
}

/// The body of a pipeline: F and B of a micro-batch, or F, I and W; R between them where there is one.
void Lowering::lower_actions(const LoopOp& op, const std::vector<Access>& carries, const std::vector<Slot>& slots) {
  const bool apart = sharded_.layout.pipeline.has_weights_apart();
  const auto action_of = [&](Part part) {
    if (part == Part::forward) return ActionKind::forward;
    if (part == Part::recompute && stages_.recomputes()) return ActionKind::recompute;
    if (!apart) return ActionKind::backward;
    return part == Part::weight_gradient ? ActionKind::weight_gradient : ActionKind::input_gradient;
  };
  const Node* loop = node_;
  Steps actions;
  for (const Part first : {Part::forward, Part::recompute, Part::input_gradient, Part::weight_gradient}) {
    if (first == Part::weight_gradient && !apart) continue;
    if (first == Part::recompute && !stages_.recomputes()) continue;
    const auto here = [&](Part part) { return action_of(part) == action_of(first); };
    Steps body;
    Steps* around = std::exchange(steps_, &body);
    keep(slots, true, here);
    for (const NodeId id : graph_.body(op.body).nodes)
      if (here(graph_.node(id).part)) lower_node(id);
    node_ = loop;
    keep(slots, false, here);
    leave(op, carries, here);
    steps_ = around;
    if (body.empty()) continue;
    actions.push_back({ActionStep{action_of(first), std::move(body)}, first, {}, {}, {}});
  }
  if (stages_.recomputes() && !sharded_.layout.pipeline.lists.recomputes_all()) add_forward_that_keeps(actions);
  if (stage_)
    for (Step& action : actions) take_turns_of_stage(program_, stage_, std::get<ActionStep>(action.what).body);
  *steps_ = std::move(actions);
}

}  // namespace mesh
