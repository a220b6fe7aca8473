#include "codegen/program/program.h"

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

bool has_bf16(const Program& program) {
  return std::ranges::find(program.buffers, Type::bf16, &Buffer::type) != program.buffers.end();
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
