// A folder of checkpoints: what is published, and how a checkpoint becomes so. Whoever looks at any moment, and
// whatever kills the writer at any moment, `latest` names a whole checkpoint.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "checkpoint/file_plan.h"
#include "checkpoint/output_file.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-", unfinished_suffix = ".unfinished", removed_suffix = ".removed";

std::optional<int64_t> step_named(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

/// Whether a name is that of something half written or half removed.
bool is_rest(std::string_view name) {
  if (!name.starts_with('.')) return false;
  name.remove_prefix(1);
  for (const std::string_view suffix : {unfinished_suffix, removed_suffix})
    if (name.ends_with(suffix) && step_named(name.substr(0, name.size() - suffix.size()))) return true;
  return name == "latest.unfinished";
}

[[noreturn]] void fail(const std::string& path, int reason) {
  throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path, std::strerror(reason)));
}

}  // namespace

std::string CheckpointFolder::finished(int64_t step) const {
  return (fs::path(path_) / fmt::format("{}{}", prefix, step)).string();
}

std::string CheckpointFolder::unfinished(int64_t step) const {
  return (fs::path(path_) / fmt::format(".{}{}{}", prefix, step, unfinished_suffix)).string();
}

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / manifest_name, ignored);
}

std::vector<int64_t> CheckpointFolder::steps() const { return step_folders(true); }

std::vector<int64_t> CheckpointFolder::incomplete() const { return step_folders(false); }

std::vector<int64_t> CheckpointFolder::step_folders(bool whole) const {
  std::vector<int64_t> steps;
  std::error_code error;  // a folder that is not there has no checkpoints
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    const auto step = step_named(entry->path().filename().string());
    std::error_code ignored;
    if (step && fs::is_directory(entry->path(), ignored) && is_checkpoint(entry->path().string()) == whole)
      steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<int64_t> CheckpointFolder::pointed() const {
  std::error_code ignored;
  return step_named(fs::read_symlink(fs::path(path_) / "latest", ignored).filename().string());
}

std::optional<int64_t> CheckpointFolder::latest() const {
  const std::vector<int64_t> all = steps();
  if (const auto named = pointed(); named && std::ranges::binary_search(all, *named)) return named;
  // Not the greatest step: a run that was begun again from an older one has written since.
  std::optional<int64_t> last;
  fs::file_time_type written{};
  for (const int64_t step : all) {
    std::error_code ignored;
    const auto time = fs::last_write_time(fs::path(finished(step)) / manifest_name, ignored);
    if (!last || time >= written) last = step, written = time;
  }
  return last;
}

std::optional<int64_t> CheckpointFolder::lost() const {
  const auto named = pointed();
  const std::vector<int64_t> all = steps();
  return named && !std::ranges::binary_search(all, *named) ? named : std::nullopt;
}

void CheckpointFolder::make() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail(path_, error.value());
}

void CheckpointFolder::prepare() const {
  std::error_code error;
  std::vector<fs::path> rests;
  for (const auto& entry : fs::directory_iterator(path_, error))
    if (is_rest(entry.path().filename().string())) rests.push_back(entry.path());
  for (const fs::path& rest : rests) {
    fs::remove_all(rest, error);
    if (error) fail(rest.string(), error.value());
  }
}

void CheckpointFolder::publish(int64_t step) const {
  const std::string from = unfinished(step), to = finished(step);
  sync_folder(from);
  // An older checkpoint of the step and the new one change places in one move, then the old one is removed.
  const bool exchanged = renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
  if (!exchanged) {
    const fs::path old = fs::path(path_) / fmt::format(".{}{}{}", prefix, step, removed_suffix);
    rename(to.c_str(), old.c_str());  // where there is none, or no exchange of names
    if (rename(from.c_str(), to.c_str()) != 0) fail(to, errno);
  }
  sync_folder(path_);
  const fs::path link = fs::path(path_) / ".latest.unfinished";
  unlink(link.c_str());
  if (symlink(fs::path(to).filename().c_str(), link.c_str()) != 0) fail(link.string(), errno);
  const fs::path latest = fs::path(path_) / "latest";
  if (rename(link.c_str(), latest.c_str()) != 0) fail(latest.string(), errno);
  sync_folder(path_);
  std::error_code ignored;  // what cannot be removed now is removed at the next start
  fs::remove_all(from, ignored);
  fs::remove_all(fs::path(path_) / fmt::format(".{}{}{}", prefix, step, removed_suffix), ignored);
}

void CheckpointFolder::abandon(int64_t step) const {
  std::error_code ignored;  // as above
  fs::remove_all(unfinished(step), ignored);
}

void CheckpointFolder::keep(int64_t count, int64_t step) const {
  std::vector<int64_t> old = steps();
  // Later steps are of a run that was begun again from here: they are replaced when this one gets there.
  std::erase_if(old, [&](int64_t s) { return s > step; });
  while (static_cast<int64_t>(old.size()) > count) {
    const fs::path removed = fs::path(path_) / fmt::format(".{}{}{}", prefix, old.front(), removed_suffix);
    std::error_code ignored;
    fs::rename(finished(old.front()), removed, ignored);  // half of a checkpoint never has its name
    fs::remove_all(removed, ignored);
    old.erase(old.begin());
  }
}

}  // namespace meshrt
