#include "codegen/program/stage_turns.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/layout/cut.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/print_program.h"
#include "codegen/program/take_turn.h"
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
      take_turn(program_, step, layers->dim, turns.loop);
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

  /// The loop whose turns the step goes over; null where it goes over none.
  const PipelineLoop* turns_of(const Step& step) const {
    const PipelineLoop* found = nullptr;
    if (has_bodies(step)) return found;
    for_each_access(step, [&](const Access& access, Use) {
      for (const PipelineLoop& loop : loops_) {
        if (!position_of(program_, access, loop.dim)) continue;
        if (found && found != &loop)
          internal_error("a step takes the turns of two loops of a pipeline: " + summary(program_, step));
        found = &loop;
      }
    });
    return found;
  }

  Program& program_;
  const AxisId axis_;
  const std::vector<PipelineLoop> loops_;
  const LoopId stage_;
};

}  // namespace

void take_turns_of_stage(Program& program, LoopId stage, Steps& steps) { StageTurns(program, stage).run(steps); }

}  // namespace mesh
