#include "meshrt/output_path.h"

#include <fmt/format.h>

#include <filesystem>

#include "meshrt/failure.h"

namespace meshrt {

namespace fs = std::filesystem;

std::string output_path(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at cannot be written either, and says so then
  const fs::file_status there = fs::status(path, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there))
    throw Failure(Cause::environment, fmt::format("cannot write `{}`: {} stands there, no file", path,
                                                  fs::is_directory(there) ? "a folder" : "a device or a pipe"));
  if (!fs::is_symlink(fs::symlink_status(path, ignored))) return path;
  if (fs::exists(there)) return fs::canonical(path, ignored).string();
  return (fs::path(path).parent_path() / fs::read_symlink(path, ignored)).string();
}

}  // namespace meshrt
