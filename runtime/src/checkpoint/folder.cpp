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
#include "system/text_file.h"

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

/// Something half written or half removed.
struct Rest {
  fs::path path;
  std::optional<int64_t> step;  // of a checkpoint
};

/// Whether a name is that of a rest: ".step-5.RUN.unfinished". Older runs have no word of their own in it.
bool is_rest(std::string_view name, std::string_view suffix, Rest& rest) {
  if (!name.starts_with('.') || !name.ends_with(suffix)) return false;
  name = name.substr(1, std::max(name.size(), suffix.size() + 1) - suffix.size() - 1);
  const size_t dot = std::min(name.find('.'), name.size());
  const std::string_view stem = name.substr(0, dot), run = name.substr(dot);
  if (run.find_first_not_of("0123456789abcdef", 1) != std::string_view::npos) return false;
  rest.step = step_named(stem);
  return rest.step || stem == "latest" || stem == "best" || stem == "shared";
}

std::vector<Rest> rests_in(const std::string& folder, std::string_view suffix) {
  std::vector<Rest> rests;
  std::error_code ignored;  // whoever writes into it tells why that cannot be
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (Rest rest{entry.path(), {}}; is_rest(entry.path().filename().string(), suffix, rest)) rests.push_back(rest);
  return rests;
}

[[noreturn]] void fail(const std::string& path, int reason) {
  throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path, std::strerror(reason)));
}

/// Of a manifest that cannot be read, or of an older program: 0.
int64_t order_in(const std::string& manifest) {
  try {
    return read_manifest(manifest).order;
  } catch (const Failure&) {
    return 0;
  }
}

/// Whether all of the checkpoint of `step` is in a folder: its manifest is written last, when the rest is on disk.
bool is_whole(const std::string& folder, int64_t step) {
  try {
    const SavedTensors saved = SavedTensors::open(folder);
    return saved.manifest() && saved.manifest()->moment.step == step;
  } catch (const Failure&) {
    return false;
  }
}

}  // namespace

std::string CheckpointFolder::finished(int64_t step) const {
  return (fs::path(path_) / fmt::format("{}{}", prefix, step)).string();
}

std::string CheckpointFolder::manifest_of(int64_t step) const {
  return (fs::path(finished(step)) / manifest_name).string();
}

std::string CheckpointFolder::hidden(const std::string& stem, std::string_view suffix) const {
  return (fs::path(path_) / fmt::format(".{}{}{}{}", stem, run_.empty() ? "" : ".", run_, suffix)).string();
}

std::string CheckpointFolder::unfinished(int64_t step) const {
  return hidden(fmt::format("{}{}", prefix, step), unfinished_suffix);
}

std::string CheckpointFolder::removed(int64_t step) const {
  return hidden(fmt::format("{}{}", prefix, step), removed_suffix);
}

std::string CheckpointFolder::mark() const { return hidden("shared", unfinished_suffix); }

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

std::optional<int64_t> CheckpointFolder::pointed(const char* link) const {
  std::error_code ignored;
  return step_named(fs::read_symlink(fs::path(path_) / link, ignored).filename().string());
}

std::optional<int64_t> CheckpointFolder::best() const {
  const auto named = pointed("best");
  return named && is_checkpoint(finished(*named)) ? named : std::nullopt;
}

std::optional<int64_t> CheckpointFolder::latest() const {
  const std::vector<int64_t> all = steps();
  if (const auto named = pointed("latest"); named && std::ranges::binary_search(all, *named)) return named;
  // Not the greatest step: a run that was begun again from an older one has written since.
  std::optional<int64_t> last;
  std::pair<int64_t, fs::file_time_type> written;
  for (const int64_t step : all) {
    std::error_code ignored;
    const std::string manifest = manifest_of(step);
    const std::pair now(order_in(manifest), fs::last_write_time(manifest, ignored));
    if (!last || now >= written) last = step, written = now;
  }
  return last;
}

int64_t CheckpointFolder::next_order() const {
  const std::optional<int64_t> before = latest();
  return 1 + (before ? order_in(manifest_of(*before)) : 0);
}

std::optional<int64_t> CheckpointFolder::lost() const {
  const auto named = pointed("latest");
  const std::vector<int64_t> all = steps();
  return named && !std::ranges::binary_search(all, *named) ? named : std::nullopt;
}

void CheckpointFolder::require_whole_latest() const {
  const auto named = lost();
  std::error_code ignored;
  if (!named || !fs::is_directory(finished(*named), ignored)) return;
  const std::optional<int64_t> older = latest();
  throw Failure(
      Cause::data,
      fmt::format("`latest` of {} names step {}, which has no {}, as a copy that was cut off leaves it: copy it "
                  "anew, or remove `{}`{}",
                  path_, *named, manifest_name, finished(*named),
                  older ? fmt::format(" to take step {}", *older) : ""));
}

void CheckpointFolder::make() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail(path_, error.value());
}

void CheckpointFolder::recover() const {
  // Where the step has a checkpoint, the rest may be what that has replaced. What was not finished is newer than what
  // was to make room for it.
  for (const std::string_view suffix : {unfinished_suffix, removed_suffix})
    for (const Rest& rest : rests_in(path_, suffix)) {
      std::error_code ignored;
      if (!rest.step || fs::exists(finished(*rest.step), ignored) || !is_whole(rest.path.string(), *rest.step))
        continue;
      move_in(rest.path.string(), *rest.step);
      if (suffix == unfinished_suffix) point("latest", *rest.step);
    }
}

void CheckpointFolder::prepare() const {
  std::error_code error;
  for (const std::string_view suffix : {removed_suffix, unfinished_suffix})
    for (const Rest& rest : rests_in(path_, suffix)) {
      fs::path from = rest.path;
      // In one move, so that a run which no lock has kept out finds all of its checkpoint or nothing.
      if (rest.step && suffix == unfinished_suffix) {
        from = removed(*rest.step);
        if (rename(rest.path.c_str(), from.c_str()) != 0) {
          if (errno == ENOENT) continue;
          fail(rest.path.string(), errno);
        }
      }
      fs::remove_all(from, error);
      if (error) fail(from.string(), error.value());
    }
}

void CheckpointFolder::require_unfinished(int64_t step) const {
  std::error_code ignored;
  if (const std::string folder = unfinished(step); !fs::exists(folder, ignored))
    throw Failure(Cause::environment,
                  fmt::format("`{}` is gone: another run writes into `{}`, or it was removed", folder, path_));
}

// The checkpoint `from` gets the name of its step. An older one of the step is removed.
void CheckpointFolder::move_in(const std::string& from, int64_t step) const {
  const std::string to = finished(step), old = removed(step);
  // Both change places in one move where the file system can (NFS cannot).
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    const bool replaces = rename(to.c_str(), old.c_str()) == 0;
    if (rename(from.c_str(), to.c_str()) != 0) {
      const int reason = errno;
      if (replaces) rename(old.c_str(), to.c_str());
      fail(to, reason);
    }
  }
  sync_folder(path_);
}

void CheckpointFolder::point(const char* link, int64_t step) const {
  const std::string made = hidden(link, unfinished_suffix);
  unlink(made.c_str());
  if (symlink(fs::path(finished(step)).filename().c_str(), made.c_str()) != 0) fail(made, errno);
  const fs::path to = fs::path(path_) / link;
  if (rename(made.c_str(), to.c_str()) != 0) fail(to.string(), errno);
  sync_folder(path_);
}

void CheckpointFolder::mark_best(int64_t step) const {
  if (is_checkpoint(finished(step))) return point("best", step);
  std::error_code ignored;
  fs::remove(fs::path(path_) / "best", ignored);
}

void CheckpointFolder::amend(int64_t step, const Course& course) const {
  const std::string path = manifest_of(step);
  Manifest manifest = read_manifest(path);
  manifest.course = course;
  write_text(path, manifest_text(manifest), Durable::yes);
}

void CheckpointFolder::publish(int64_t step) const {
  require_unfinished(step);
  sync_folder(unfinished(step));
  move_in(unfinished(step), step);
  point("latest", step);
  std::error_code ignored;  // what cannot be removed now is removed at the next start
  fs::remove_all(unfinished(step), ignored);
  fs::remove_all(removed(step), ignored);
}

void CheckpointFolder::abandon(int64_t step) const {
  std::error_code ignored;  // as above
  fs::remove_all(unfinished(step), ignored);
}

void CheckpointFolder::keep(int64_t count, int64_t step) const {
  std::vector<int64_t> old = steps();
  // Later steps are of a run that was begun again from here: they are replaced when this one gets there.
  std::erase_if(old, [&](int64_t s) { return s > step; });
  old.resize(std::max(old.size(), static_cast<size_t>(count)) - static_cast<size_t>(count));
  const auto best = pointed("best");
  for (const int64_t one : old) {
    if (one == best) continue;
    const std::string away = removed(one);
    std::error_code ignored;
    fs::rename(finished(one), away, ignored);  // half of a checkpoint never has its name
    fs::remove_all(away, ignored);
  }
}

}  // namespace meshrt
