#include "data/data_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "data/data_formats.h"
#include "system/descriptor.h"

namespace meshrt {

namespace {

constexpr int64_t looked_at = 64 << 10;  // bytes, at each of three places

std::optional<DataFile> look_at(const std::string& path) {
  struct stat status {};
  // A pipe would wait for somebody to write, and what was read of it would be gone.
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  DataFile found{status.st_size, 0};
  std::vector<std::byte> bytes(looked_at);
  for (const int64_t place : {int64_t{0}, (found.bytes - looked_at) / 2, found.bytes - looked_at}) {
    const int64_t at = std::max<int64_t>(0, place);
    const ssize_t count = pread(file.get(), bytes.data(), bytes.size(), at);
    if (count < 0) return std::nullopt;
    found.hash += hash_elements(std::span(bytes).first(static_cast<size_t>(count)), 1, at);
  }
  return found;
}

}  // namespace

std::map<std::string, DataFile> data_files(const RunFile& run) {
  std::map<std::string, DataFile> files;
  const auto add = [&](const std::string& input, const std::string& path) {
    const std::optional<DataFile> file = look_at(path);
    if (!file) return;
    const std::string name = as_utf8(fmt::format("{}: {}", input, std::filesystem::path(path).filename().string()));
    // Those of a mixture may lie in folders of their own under one name.
    std::string key = name;
    for (int number = 2; files.contains(key); ++number) key = fmt::format("{} ({})", name, number);
    files[key] = *file;
  };
  for (const Source& source : run.data) {
    if (source.of.given()) continue;  // another input's files
    for (const FileSource& file : source.files()) {
      add(source.input, file.file.value);
      if (file.file.value.ends_with(".idx")) add(source.input, megatron_pair(file.file.value).second);
      if (file.tokenizer.given()) add(source.input, file.tokenizer.value);
    }
  }
  return files;
}

std::string as_utf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace meshrt
