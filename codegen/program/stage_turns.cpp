#include "codegen/program/stage_turns.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/layout/cut.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/print_program.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

class StageTurns {
 public:
  StageTurns(Program& program, LoopId stage)
      : program_(program),
        axis_(program.sharded.layout.pipeline.axis),
        loops_(all_layers(program.sharded.graph, program.sharded.layout.pipeline)),
        stage_(stage) {}

  /// From the end on, so that steps which may wait stand in one loop with later ones.
  void run(Steps& steps) {
    Steps all;                             // the last one first
    std::optional<size_t> loop;            // in there
    const PipelineLoop* layers = nullptr;  // whose turns that makes
    std::vector<StepSets> between;         // of the steps in front of that loop
    for (; !steps.empty(); steps.pop_back()) {
      Step& step = steps.back();
      const StepSets own = sets_of(program_, step);
      const PipelineLoop* over = turns_of(step);
      if (!over) {
        if (auto* branch = std::get_if<BranchStep>(&step.what)) run(branch->body);
        between.push_back(own);
        all.push_back(std::move(step));
        continue;
      }
      if (!loop || over != layers ||
          std::ranges::any_of(between, [&](const StepSets& one) { return conflict(own, one); })) {
        layers = over;
        all.push_back({new_loop(*layers), step.part, step.spans, step.scope, {}});
        loop = all.size() - 1;
        between.clear();
      }
      auto& turns = std::get<ForStep>(all[*loop].what);
      take_turn(step, layers->dim, turns.loop);
      turns.body.insert(turns.body.begin(), std::move(step));
    }
    std::ranges::reverse(all);
    steps = std::move(all);
  }

 private:
  ForStep new_loop(const PipelineLoop& layers) {
    ForStep made{{program_.loops++}, layers.dim, layers.turns, false, {}};
    made.own = DimPlacement{{axis_}, layers.deal, {}};
    made.stage = stage_;
    return made;
  }

  /// Where the buffer has the turns, behind the dims that loops around the stage fix.
  std::optional<size_t> position_of_turns(const Access& access, DimId layers) const {
    const std::span<const LocalDim> dims = dims_of(program_, access);
    const auto turns = std::ranges::find(dims, layers, &LocalDim::dim);
    if (turns == dims.end()) return {};
    return access.turns.size() + static_cast<size_t>(turns - dims.begin());
  }

  /// The loop whose turns the step goes over; null where it goes over none.
  const PipelineLoop* turns_of(const Step& step) const {
    const PipelineLoop* found = nullptr;
    if (has_bodies(step)) return found;
    for_each_access(step, [&](const Access& access, Use) {
      for (const PipelineLoop& loop : loops_) {
        if (!position_of_turns(access, loop.dim)) continue;
        if (found && found != &loop)
          internal_error("a step takes the turns of two loops of a pipeline: " + summary(program_, step));
        found = &loop;
      }
    });
    return found;
  }

  void take_turn(Step& step, DimId layers, LoopId loop) {
    if (const auto* copy = std::get_if<CopyStep>(&step.what);
        copy && !(leads(copy->from, layers) && leads(copy->to, layers)))
      step.what = nest_of(*copy);
    if (auto* nest = std::get_if<Nest>(&step.what)) {
      without(nest->outer, layers);
      for (Pass& pass : nest->passes) {
        without(pass.inner, layers);
        for (Scalar& scalar : pass.scalars) take_turn(scalar, layers, loop);
      }
    } else if (auto* product = std::get_if<ProductStep>(&step.what)) {
      std::erase(product->batch, layers);
    } else if (auto* moved = std::get_if<CollectiveStep>(&step.what)) {
      without(moved->before, layers);
      without(moved->after, layers);
      for (int* dim : {&moved->from_dim, &moved->to_dim}) *dim = std::max(*dim - 1, -1);
    } else if (!std::holds_alternative<CopyStep>(step.what) && !std::holds_alternative<FillStep>(step.what)) {
      internal_error("a step of a pipeline takes the turns of several stages together: " + summary(program_, step));
    }
    for_each_access(step, [&](Access& access, Use) {
      if (const auto position = position_of_turns(access, layers)) take_turn(access, *position, loop);
    });
  }

  bool leads(const Access& access, DimId layers) const {
    return position_of_turns(access, layers).value_or(access.turns.size()) == access.turns.size();
  }

  /// As a leading dim where it is one; inputs have the samples in front of it.
  static void take_turn(Access& access, size_t position, LoopId loop) {
    if (position == access.turns.size()) access.turns.emplace_back(loop);
    else access = mapped(std::move(access), {position, {}, 0, 1, 1, {}, loop});
  }

  /// The same, along whichever dims.
  Nest nest_of(const CopyStep& copy) const {
    const std::span<const LocalDim> dims = dims_of(program_, copy.to);
    Pass pass;
    pass.inner.assign(dims.begin(), dims.end());
    pass.scalars.push_back({Scalar::Load{copy.from}, program_.buffer(copy.from.buffer).type});
    pass.stores.push_back({0, copy.to});
    return {{}, {std::move(pass)}, {}};
  }

  static void take_turn(Scalar& scalar, DimId layers, LoopId loop) {
    if (const auto* index = std::get_if<Scalar::Index>(&scalar.what); index && index->dim == layers)
      scalar.what = Scalar::Turn{loop};
    if (auto* random = std::get_if<Scalar::Random>(&scalar.what))
      for (Scalar::Random::Counted& counted : random->dims)
        if (counted.dim == layers) counted.turn = loop;
  }

  static void without(std::vector<LocalDim>& dims, DimId layers) {
    std::erase_if(dims, [&](const LocalDim& one) { return one.dim == layers; });
  }

  Program& program_;
  const AxisId axis_;
  const std::vector<PipelineLoop> loops_;
  const LoopId stage_;
};

}  // namespace

void take_turns_of_stage(Program& program, LoopId stage, Steps& steps) { StageTurns(program, stage).run(steps); }

}  // namespace mesh
