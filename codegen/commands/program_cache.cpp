#include "codegen/commands/program_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "codegen/emit/build.h"
#include "meshrt/instructions.h"
#include "meshrt/random.h"

namespace mesh {

namespace fs = std::filesystem;

namespace {

fs::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return fs::path(cache) / "meshwright";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "meshwright";
  return fs::temp_directory_path() / fmt::format("meshwright-{}", getuid());
}

/// What the binary is made of beside the text: how it is compiled, and the library that is linked into it.
std::string build_key(const std::string& name) {
  std::string key = build_script(name);
  for (const char* variable : compile_variables)
    if (const char* value = std::getenv(variable)) key += fmt::format("{}={}\n", variable, value);
  const std::string runtime = find_runtime();
  key += runtime + "\n" + meshrt::cpu_instructions() + "\n";  // hosts of several kinds may share the folder
  std::error_code ignored;
  if (const fs::path path = runtime_library(runtime); !path.empty())
    key += fmt::format("{} {}\n", fs::file_size(path, ignored),
                       fs::last_write_time(path, ignored).time_since_epoch().count());
  return key;
}

/// Removes all but those that were used last.
void forget_old_programs(const fs::path& cache) {
  constexpr size_t kept = 100;
  std::vector<std::pair<fs::file_time_type, fs::path>> programs;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache, ignored))
    programs.emplace_back(entry.last_write_time(ignored), entry.path());
  if (programs.size() <= kept) return;
  std::sort(programs.begin(), programs.end(), std::greater<>());
  for (size_t i = kept; i < programs.size(); ++i) fs::remove_all(programs[i].second, ignored);
}

}  // namespace

// It is built in a folder of its own and moved into place, so that two runs at once do not meet.
std::optional<fs::path> cached_program(const std::string& name, const std::string& text,
                                       const std::map<std::string, std::string>& beside) {
  const uint64_t hash = meshrt::hash_of(text + '\0' + build_key(name));
  const fs::path folder = cache_folder() / fmt::format("{:016x}", hash), program = folder / name;
  std::error_code ignored;
  if (fs::exists(program)) {
    fs::last_write_time(folder, fs::file_time_type::clock::now(), ignored);  // used just now
    return program;
  }
  const fs::path making = folder.string() + fmt::format(".{}", getpid());
  fmt::print(stderr, "compiling {}, {} lines of C++\n", name, std::ranges::count(text, '\n'));
  const auto start = std::chrono::steady_clock::now();
  if (!build_program({.folder = making.string(), .name = name, .text = text, .run_file = "", .beside = beside})) {
    fs::remove_all(making, ignored);
    return std::nullopt;
  }
  std::error_code taken;
  fs::rename(making, folder, taken);
  if (taken) fs::remove_all(making, ignored);  // another run was faster
  forget_old_programs(cache_folder());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "compiled {} in {:.1f} s\n", name, seconds.count());
  return program;
}

}  // namespace mesh
