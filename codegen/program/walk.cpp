#include "codegen/program/walk.h"

namespace mesh {

std::vector<Steps*> bodies(Step& step) {
  return std::visit(
      []<class Kind>(Kind& kind) -> std::vector<Steps*> {
        if constexpr (HasBodies<Kind>) {
          const auto all = kind.bodies();
          return {all.begin(), all.end()};
        } else {
          return {};
        }
      },
      step.what);
}

std::vector<const Steps*> bodies(const Step& step) {
  const std::vector<Steps*> all = bodies(const_cast<Step&>(step));  // hands them out as they are
  return {all.begin(), all.end()};
}

bool has_bodies(const Step& step) {
  return std::visit([]<class Kind>(const Kind&) { return HasBodies<Kind>; }, step.what);
}

void for_each_list(Steps& steps, const std::function<void(Steps&)>& visit) {
  const auto ignore = [](const auto&...) {};
  walk(steps, ignore, ignore, [&](const Step&, Steps& body) { visit(body); });
  visit(steps);
}

void for_each_list(Program& program, const std::function<void(Steps&)>& visit) {
  for (Routine& routine : program.routines) for_each_list(routine.steps, visit);
}

std::vector<DimId> dims_of_loops(const Program& program) {
  std::vector<DimId> dims(program.loops);
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      const auto* loop = std::get_if<ForStep>(&step.what);
      if (loop == nullptr) return;
      dims[loop->loop.index] = loop->dim;
      if (loop->order && loop->order->stage) dims[loop->order->stage.index] = loop->order->stages.dim;
    });
  return dims;
}

Part part_of(const Step& step) {
  for (const Steps* body : bodies(step))
    if (!body->empty()) return part_of(body->front());
  return step.part;
}

}  // namespace mesh
