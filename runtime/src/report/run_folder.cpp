#include "report/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "files/parsed_json.h"
#include "meshrt/failure.h"
#include "system/tell.h"
#include "system/text_file.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

constexpr const char* flights = "flight";  // the folder of flight recorders in that of a run
constexpr std::array of_programs = {"plan.txt", "plan.json", "spec"};  // what lies beside a program, and is copied

Failure cannot_make(const std::string& folder, const std::error_code& error) {
  return {Cause::environment, fmt::format("cannot make the run folder `{}`: {}\n`--run-dir DIR` names another, "
                                          "`--run-dir none` runs without",
                                          folder, error.message())};
}

/// Numbers of the folders `stem`-0001 and so on, ascending.
std::vector<int> numbers_of(const fs::path& parent, const std::string& stem) {
  std::vector<int> numbers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem + "-")) continue;
    int number = 0;
    const char *begin = name.data() + stem.size() + 1, *end = name.data() + name.size();
    if (std::from_chars(begin, end, number).ptr == end && begin != end) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

std::string numbered(const fs::path& parent, const std::string& stem, int number) {
  return (parent / fmt::format("{}-{:04}", stem, number)).string();
}

/// Makes the next of the folders `stem`-0001 and so on.
std::string next_folder(const fs::path& parent, const std::string& stem) {
  const std::vector<int> numbers = numbers_of(parent, stem);
  for (int number = numbers.empty() ? 1 : numbers.back() + 1;; ++number) {
    std::string folder = numbered(parent, stem, number);
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;
    if (error) throw cannot_make(folder, error);
    // Another run was faster: the next number.
  }
}

/// Whether the run of a folder has written its checkpoints where this one has found its own.
bool same_checkpoints(const std::string& folder, const RunFile& run) {
  std::ifstream file(fs::path(folder) / "metrics.jsonl");
  std::string head;
  std::getline(file, head);
  const auto json = parsed_json(head);
  std::error_code other;  // or none there
  return json.is_object() && fs::equivalent(json.value("checkpoints", ""), run.checkpoint.folder.value, other);
}

std::string counted_folder(const FolderChoice& choice, const std::string& stem, const RunFile& run) {
  const fs::path parent = choice.parent;
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) throw cannot_make(parent.string(), error);
  const std::vector<int> numbers = numbers_of(parent, stem);
  if (choice.resumed > 0 && run.checkpoint.folder.given())
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number)
      if (std::string folder = numbered(parent, stem, *number); same_checkpoints(folder, run)) return folder;
  return next_folder(parent, stem);
}

/// Puts a copy in the place of `to`, which stays when that fails.
bool copy_over(const fs::path& from, const fs::path& to, std::error_code& error) {
  std::error_code ignored;
  const fs::path unfinished = to.string() + ".unfinished";
  fs::remove_all(unfinished, ignored);
  fs::copy(from, unfinished, fs::copy_options::recursive, error);
  if (!error) fs::remove_all(to, error);  // a folder is not renamed onto another
  if (!error) fs::rename(unfinished, to, error);
  if (error) fs::remove_all(unfinished, ignored);
  return !error;
}

}  // namespace

std::string make_run_folder(const FolderChoice& choice, const ProgramInfo& info, const RunFile& run) {
  if (choice.named == no_folder || (choice.named.empty() && choice.parent == no_folder)) return "";
  if (!choice.named.empty()) {
    std::error_code error;
    fs::create_directories(choice.named, error);
    if (error) throw cannot_make(choice.named, error);
    return choice.named;
  }
  const std::string stem = fs::path(info.spec).stem().string();
  return counted_folder(choice, stem.empty() ? "run" : stem, run);
}

FolderLock lock_run_folder(const std::string& folder) {
  const std::string flight = (fs::path(folder) / flights).string();
  std::error_code ignored;
  fs::create_directories(flight, ignored);
  // Not the folder itself, which may also be that of the checkpoints, with a lock of its own.
  return {flight, folder, "name another folder with `--run-dir`"};
}

std::string set_aside_earlier(const std::string& folder, const std::string& program_folder) {
  std::error_code elsewhere;
  const bool of_program = fs::equivalent(folder, program_folder, elsewhere);
  const auto is_of_run = [&](const std::string& name) {
    constexpr std::array names = {"run.yaml", "log.txt", "metrics.jsonl", "loss.svg", "summary.json", "trace.json"};
    return std::ranges::find(names, name) != names.end() || name.starts_with("events.out.tfevents.") ||
           (!of_program && std::ranges::find(of_programs, name) != of_programs.end());
  };
  std::vector<fs::path> files;
  bool filled = false;  // a run.yaml alone is the user's
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_of_run(name)) files.push_back(entry.path());
    filled |= name == "log.txt" || name == "metrics.jsonl";
  }
  if (!filled) return "";
  std::string earlier = next_folder(folder, "earlier");
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(folder) / flights, error))
    if (entry.path().filename().string().starts_with("rank-")) files.push_back(entry.path());
  fs::create_directory(fs::path(earlier) / flights, error);
  for (const fs::path& file : files) {
    fs::rename(file, fs::path(earlier) / file.lexically_relative(folder), error);
    if (error) throw cannot_make(earlier, error);
  }
  return earlier;
}

void describe_run(const std::string& folder, const std::string& program_folder, const RunFile& run, bool resumed) {
  const std::string run_file = (fs::path(folder) / "run.yaml").string();
  if (resumed) offer_text(run_file, run.resolved);
  else write_text(run_file, run.resolved);
  if (program_folder.empty()) return;
  for (const char* name : of_programs) {
    const fs::path from = fs::path(program_folder) / name, to = fs::path(folder) / name;
    std::error_code ignored, error;
    if (!fs::exists(from, ignored) || fs::equivalent(from, to, ignored) || copy_over(from, to, error)) continue;
    tell("warning: cannot write `{}`: {}; the run goes on without it\n", to.string(), error.message());
  }
}

}  // namespace meshrt
