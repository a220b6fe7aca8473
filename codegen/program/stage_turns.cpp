#include "codegen/program/stage_turns.h"

#include <algorithm>

#include "codegen/graph/builder.h"
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
        layers_(program.sharded.layout.pipeline.loops.front()),  // of chunks there is one loop
        stage_(stage) {}

  /// From the end on, so that steps which may wait stand in one loop with later ones.
  void run(Steps& steps) {
    Steps all;                      // the last one first
    std::optional<size_t> loop;     // in there
    std::vector<StepSets> between;  // of the steps in front of that loop
    for (; !steps.empty(); steps.pop_back()) {
      Step& step = steps.back();
      const StepSets own = sets_of(program_, step);
      if (!goes_over_turns(step)) {
        if (auto* branch = std::get_if<BranchStep>(&step.what)) run(branch->body);
        between.push_back(own);
        all.push_back(std::move(step));
        continue;
      }
      if (!loop || std::ranges::any_of(between, [&](const StepSets& one) { return conflict(own, one); })) {
        all.push_back({new_loop(), step.part, step.spans, step.scope, {}});
        loop = all.size() - 1;
        between.clear();
      }
      auto& turns = std::get<ForStep>(all[*loop].what);
      take_turn(step, turns.loop);
      turns.body.insert(turns.body.begin(), std::move(step));
    }
    std::ranges::reverse(all);
    steps = std::move(all);
  }

 private:
  ForStep new_loop() {
    ForStep made{{program_.loops++}, layers_.dim, layers_.turns, false, {}};
    made.own = DimPlacement{{axis_}, layers_.deal, {}};
    made.stage = stage_;
    return made;
  }

  bool is_of_turns(const Access& access) const {
    const std::span<const LocalDim> dims = dims_of(program_, access);
    const auto turns = std::ranges::find(dims, layers_.dim, &LocalDim::dim);
    if (turns != dims.end() && turns != dims.begin())
      internal_error("the turns of a pipeline are not the first dim of " + program_.buffer(access.buffer).name);
    return turns != dims.end();
  }

  bool goes_over_turns(const Step& step) const {
    bool found = false;
    if (!has_bodies(step))
      for_each_access(step, [&](const Access& access, Use) { found = found || is_of_turns(access); });
    return found;
  }

  void take_turn(Step& step, LoopId loop) {
    if (auto* nest = std::get_if<Nest>(&step.what)) {
      without(nest->outer);
      for (Pass& pass : nest->passes) {
        without(pass.inner);
        for (Scalar& scalar : pass.scalars) take_turn(scalar, loop);
      }
    } else if (auto* product = std::get_if<ProductStep>(&step.what)) {
      std::erase(product->batch, layers_.dim);
    } else if (auto* moved = std::get_if<CollectiveStep>(&step.what)) {
      without(moved->before);
      without(moved->after);
      for (int* dim : {&moved->from_dim, &moved->to_dim}) *dim = std::max(*dim - 1, -1);
    } else if (!std::holds_alternative<CopyStep>(step.what) && !std::holds_alternative<FillStep>(step.what)) {
      internal_error("a step of a pipeline takes the turns of several stages together: " + summary(program_, step));
    }
    for_each_access(step, [&](Access& access, Use) {
      if (is_of_turns(access)) access.turns.emplace_back(loop);
    });
  }

  void take_turn(Scalar& scalar, LoopId loop) const {
    if (const auto* index = std::get_if<Scalar::Index>(&scalar.what); index && index->dim == layers_.dim)
      scalar.what = Scalar::Turn{loop};
    if (auto* random = std::get_if<Scalar::Random>(&scalar.what))
      for (Scalar::Random::Counted& counted : random->dims)
        if (counted.dim == layers_.dim) counted.turn = loop;
  }

  void without(std::vector<LocalDim>& dims) const {
    std::erase_if(dims, [&](const LocalDim& one) { return one.dim == layers_.dim; });
  }

  Program& program_;
  const AxisId axis_;
  const PipelineLoop& layers_;
  const LoopId stage_;
};

}  // namespace

void take_turns_of_stage(Program& program, LoopId stage, Steps& steps) { StageTurns(program, stage).run(steps); }

}  // namespace mesh
