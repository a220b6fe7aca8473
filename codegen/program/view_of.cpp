#include "codegen/program/view_of.h"

#include "codegen/program/extent.h"

namespace mesh {

BufferId view_of(Program& program, BufferNames& names, const Access& access, const std::vector<LocalDim>& dims) {
  const Buffer& of = program.buffer(access.buffer);
  std::vector<LocalDim> all(of.dims.begin(), of.dims.begin() + static_cast<std::ptrdiff_t>(access.turns.size()));
  all.insert(all.end(), dims.begin(), dims.end());
  const BufferId root = storage(program, access.buffer);
  if (program.buffer(root).dims == all) return root;
  for (uint32_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].view_of == root && program.buffers[i].dims == all) return {i};
  Buffer buffer = program.buffer(root);
  buffer.name = names.unique(buffer.name);
  buffer.dims = std::move(all);
  buffer.view_of = root;
  program.buffers.push_back(std::move(buffer));
  return {static_cast<uint32_t>(program.buffers.size() - 1)};
}

}  // namespace mesh
