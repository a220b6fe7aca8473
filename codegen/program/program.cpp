#include "codegen/program/program.h"

#include "codegen/graph/op.h"
#include "codegen/program/step.h"
#include "codegen/program/walk.h"

namespace mesh {

Program::Program() = default;
Program::Program(const Program&) = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(const Program&) = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

const EntryPoint* Program::entry(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &EntryPoint::name);
  return found == entries.end() ? nullptr : &*found;
}

int64_t MemoryPlan::peak() const {
  int64_t most = used.empty() ? arena + own : 0;
  for (const meshrt::RankMemory& one : used) most = std::max(most, static_cast<int64_t>(one.bytes()));
  return most;
}

bool rounds_to(const Program& program, Type type) {
  return std::ranges::any_of(program.sharded.graph.values,
                             [&](const Value& value) { return value.type.element == type; });
}

bool adds_up(const Program& program, Type type) {
  return std::ranges::any_of(program.sharded.graph.nodes, [&](const Node& node) {
    return map_function(node.op) == MapFunction::cast_part &&
           program.sharded.graph.type(node.results[0]).element == type;
  });
}

bool multiplies(const Program& program, Type type) {
  bool found = false;
  const auto has_it = [&](const Access& access) { return program.buffer(access.buffer).type == type; };
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      const auto* product = std::get_if<ProductStep>(&step.what);
      const auto* attention = std::get_if<AttentionStep>(&step.what);
      const auto* defined = std::get_if<DefinedStep>(&step.what);
      found = found || (product && has_it(product->a) && (has_it(product->b) || product->rounds_b)) ||
              (attention && has_it(attention->q)) ||
              (defined && defined->definition->convolves && has_it(defined->reads.front()));
    });
  return found;
}

bool has_convolutions(const Program& program) {
  bool found = false;
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      const auto* defined = std::get_if<DefinedStep>(&step.what);
      found = found || (defined && defined->definition->convolves);
    });
  return found;
}

}  // namespace mesh
