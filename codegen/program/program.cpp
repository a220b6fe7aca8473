#include "codegen/program/program.h"

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

bool has_bf16(const Program& program) {
  return std::ranges::find(program.buffers, Type::bf16, &Buffer::type) != program.buffers.end();
}

}  // namespace mesh
