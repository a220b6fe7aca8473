#include "report/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "meshrt/failure.h"

namespace meshrt {

namespace fs = std::filesystem;

void write_text(const std::string& path, const std::string& text) {
  std::error_code error;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, error);
  const std::string unfinished = path + ".unfinished";
  std::ofstream file(unfinished, std::ios::binary);
  file << text;
  file.close();
  if (file) fs::rename(unfinished, path, error);
  if (!file || error)
    throw Failure(Cause::environment,
                  fmt::format("cannot write `{}`: {}", path, error ? error.message() : std::strerror(errno)));
}

void append_line(const std::string& path, const std::string& line) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) std::ofstream(path, std::ios::binary | std::ios::app) << line + "\n";
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace meshrt
