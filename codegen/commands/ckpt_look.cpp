// ckpt_look.cpp: `meshc ckpt ls`, `show` and `verify`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/commands/ckpt.h"
#include "codegen/commands/command.h"
#include "meshrt/checkpoint.h"
#include "meshrt/failure.h"
#include "meshrt/log.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;
using meshrt::CheckpointFolder, meshrt::Manifest, meshrt::NamedArray, meshrt::SavedTensors, meshrt::bytes_text;

std::string mesh_text(const Manifest& manifest) {
  std::vector<std::string> axes;
  for (const auto& [axis, size] : manifest.mesh) axes.push_back(fmt::format("{} {}", axis, size));
  return axes.empty() ? "1 rank" : fmt::format("{}", fmt::join(axes, ", "));
}

Json manifest_json(const Manifest& manifest) {
  Json mesh = Json::object();
  for (const auto& [axis, size] : manifest.mesh) mesh[axis] = size;
  return {{"step", manifest.moment.step},
          {"position", manifest.moment.position},
          {"seed", manifest.moment.seed},
          {"program", manifest.program},
          {"spec", manifest.spec},
          {"spec_hash", manifest.spec_hash},
          {"precision", manifest.precision},
          {"layout", manifest.layout},
          {"mesh", mesh}};
}

/// What can be said of one checkpoint: its tensors, or why it cannot be opened.
struct Opened {
  std::optional<SavedTensors> saved;
  std::string fault;
};

/// A checkpoint in a list of them.
struct Listed {
  std::string path;
  bool latest = false, best = false, incomplete = false;
};

Opened open(const Listed& one) {
  if (one.incomplete) return {std::nullopt, "it has no checkpoint.json"};
  try {
    return {SavedTensors::open(one.path), ""};
  } catch (const meshrt::Failure& failure) {
    return {std::nullopt, failure.what()};
  }
}

/// Those of a run's folder, or the one that `path` is itself.
std::vector<Listed> listed(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) throw meshrt::Failure(meshrt::Cause::data, fmt::format("there is no folder `{}`", path));
  if (meshrt::is_checkpoint(path)) {
    const fs::path one = fs::path(path).lexically_normal(), itself = one.has_filename() ? one : one.parent_path();
    std::error_code ignored;  // one that was copied elsewhere has no `latest` beside it
    const auto is = [&](const char* link) { return fs::equivalent(itself.parent_path() / link, itself, ignored); };
    return {{itself.string(), is("latest"), is("best"), false}};
  }
  const CheckpointFolder folder(path);
  const std::vector<int64_t> incomplete = folder.incomplete();
  std::vector<int64_t> steps = folder.steps();
  steps.insert(steps.end(), incomplete.begin(), incomplete.end());
  if (steps.empty())
    throw meshrt::Failure(meshrt::Cause::data,
                          fmt::format("`{}` holds no checkpoint of a run: `meshc ckpt show` shows other files", path));
  std::ranges::sort(steps);
  const auto latest = folder.latest(), best = folder.best();
  std::vector<Listed> list;
  list.reserve(steps.size());
  for (const int64_t step : steps)
    list.push_back({folder.finished(step), latest == step, best == step, std::ranges::binary_search(incomplete, step)});
  return list;
}

}  // namespace

std::string shape_text(meshrt::Type type, const std::vector<int64_t>& shape) {
  return fmt::format("{}[{}]", meshrt::name_of(type), fmt::join(shape, ", "));
}

int list_checkpoints(const std::string& path, bool json) {
  Json list = Json::array();
  bool whole = true;
  for (const Listed& one : listed(path)) {
    const std::string name = std::filesystem::path(one.path).filename().string();
    const Opened opened = open(one);
    whole = whole && opened.saved;
    if (json) {
      Json entry = {{"path", one.path}, {"latest", one.latest}, {"best", one.best}};
      if (opened.saved) entry.update(manifest_json(*opened.saved->manifest()));
      if (opened.saved) entry["bytes"] = opened.saved->bytes();
      else entry["fault"] = opened.fault;
      list.push_back(entry);
    } else if (opened.saved) {
      const Manifest& manifest = *opened.saved->manifest();
      fmt::print("{:<12} {:>10}  {} {} on {}{}{}\n", name, bytes_text(opened.saved->bytes()), manifest.program,
                 manifest.precision, mesh_text(manifest), one.latest ? "  (latest)" : "", one.best ? "  (best)" : "");
    } else {
      fmt::print("{:<12} {:>10}  {}\n", name, one.incomplete ? "incomplete" : "damaged", opened.fault);
    }
  }
  if (json) fmt::print("{}\n", Json{{"schema", 1}, {"checkpoints", list}}.dump(2));
  return whole ? exit_ok : exit_diagnostics;
}

int show_checkpoint(const std::string& path, bool json) {
  const SavedTensors saved = SavedTensors::open(path);
  Json object = {{"schema", 1}, {"path", saved.path()}}, tensors = Json::array();
  if (saved.manifest()) object.update(manifest_json(*saved.manifest()));
  size_t width = 0;
  for (const NamedArray& tensor : saved.tensors()) {
    width = std::max(width, tensor.name.size());
    Json entry = {{"name", tensor.name},
                  {"type", meshrt::name_of(tensor.type)},
                  {"shape", tensor.shape},
                  {"bytes", tensor.data.size()},
                  {"file", saved.file_of(tensor.name)},
                  {"optimizer", saved.of_optimizer(tensor.name)}};
    if (saved.manifest()) entry["hash"] = fmt::format("{:016x}", saved.manifest()->hashes.at(tensor.name));
    tensors.push_back(entry);
  }
  object["bytes"] = saved.bytes();
  object["tensors"] = tensors;
  if (json) {
    fmt::print("{}\n", object.dump(2));
    return exit_ok;
  }
  if (const auto& manifest = saved.manifest())
    fmt::print("{}: step {} of {} from {} ({})\n  {} samples read, seed {}; written by {} on {}, precision {}\n",
               saved.path(), manifest->moment.step, manifest->program, manifest->spec, manifest->spec_hash,
               manifest->moment.position, manifest->moment.seed,
               manifest->layout.empty() ? "one rank" : "layout " + manifest->layout, mesh_text(*manifest),
               manifest->precision);
  else fmt::print("{}\n", saved.path());
  fmt::print("  {} tensors, {}\n", saved.tensors().size(), bytes_text(saved.bytes()));
  for (const NamedArray& tensor : saved.tensors())
    fmt::print("  {:<{}}  {:<24} {:>10}  {}\n", tensor.name, width, shape_text(tensor.type, tensor.shape),
               bytes_text(static_cast<int64_t>(tensor.data.size())), saved.file_of(tensor.name));
  return exit_ok;
}

int verify_checkpoints(const std::string& path, bool json) {
  const CheckpointFolder folder(path);
  const bool several = !folder.steps().empty() || !folder.incomplete().empty();
  Json list = Json::array();
  bool good = true;
  for (const Listed& found : several ? listed(path) : std::vector{Listed{path}}) {
    const std::string& one = found.path;
    const Opened opened = open(found);
    std::vector<std::string> faults;
    if (opened.saved)
      for (const std::string& name : damaged_tensors(*opened.saved))
        faults.push_back(fmt::format("`{}` in {} is not what was written", name, opened.saved->file_of(name)));
    else faults.push_back(opened.fault);
    std::vector<std::string> doubts;  // as they were written, but nothing to go on from
    if (opened.saved)
      for (const NamedArray& tensor : opened.saved->tensors())
        if (const int64_t bad = not_finite(tensor))
          doubts.push_back(fmt::format("`{}`: {} of {} numbers {} not finite", tensor.name, bad,
                                       tensor.data.size() / size_of(tensor.type), bad == 1 ? "is" : "are"));
    const bool hashed = opened.saved && opened.saved->manifest();
    good = good && faults.empty();
    list.push_back(
        {{"path", one}, {"good", faults.empty()}, {"hashed", hashed}, {"faults", faults}, {"not_finite", doubts}});
    if (json) continue;
    if (!faults.empty()) fmt::print("damaged {}\n  {}\n", one, fmt::join(faults, "\n  "));
    else
      fmt::print("good    {}: {} tensors, {}{}\n", one, opened.saved->tensors().size(),
                 bytes_text(opened.saved->bytes()),
                 hashed ? "" : "; without hashes only headers and sizes can be checked");
    for (const std::string& doubt : doubts) fmt::print("  {}\n", doubt);
  }
  if (json) fmt::print("{}\n", Json{{"schema", 1}, {"good", good}, {"checkpoints", list}}.dump(2));
  return good ? exit_ok : exit_diagnostics;
}

}  // namespace mesh
