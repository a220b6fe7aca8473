#include "codegen/commands/write_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "codegen/commands/command.h"
#include "meshrt/failure.h"

namespace mesh {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text).flush())
    throw meshrt::Failure(meshrt::Cause::environment, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

void require_writable(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const bool there = std::filesystem::exists(path);
  if (std::filesystem::is_directory(path) || access(there ? path.c_str() : folder.c_str(), W_OK) != 0)
    throw meshrt::Failure(meshrt::Cause::environment,
                          fmt::format("cannot write {}: {}", path,
                                      std::filesystem::is_directory(path) ? "it is a folder"
                                      : there                             ? "it may not be written"
                                      : std::filesystem::exists(folder)   ? "its folder may not be written"
                                                                          : "there is no such folder"));
}

void keep_read(const std::string& option, const std::string& path, const std::vector<std::string>& read) {
  std::error_code ignored;  // of files that are not there
  for (const std::string& file : read)
    if (!path.empty() && std::filesystem::equivalent(file, path, ignored))
      throw UsageError(fmt::format("{} {}: that is a file which is read; name another", option, path));
}

}  // namespace mesh
