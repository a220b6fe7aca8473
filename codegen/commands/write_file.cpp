#include "codegen/commands/write_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "meshrt/failure.h"

namespace mesh {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text).flush())
    throw meshrt::Failure(meshrt::Cause::environment, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace mesh
