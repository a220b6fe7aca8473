// Opening whole tensors on disk, whoever wrote them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/file_plan.h"
#include "files/elements.h"
#include "files/file_bytes.h"
#include "files/parsed_json.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace fs = std::filesystem;

namespace {

constexpr const char* model_index = "model.safetensors.index.json";
constexpr const char* optimizer_index = "optimizer.safetensors.index.json";

/// File by tensor.
std::map<std::string, std::string> read_index(const std::string& path) {
  const auto fail = [&](const char* why) { throw Failure(Cause::data, fmt::format("`{}` is damaged: {}", path, why)); };
  const auto file = FileBytes::open(path, Compression::none);
  const auto* text = reinterpret_cast<const char*>(file->bytes().data());
  const auto json = parsed_json({text, file->bytes().size()});
  if (json.is_discarded()) fail("it is not JSON");
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail("it has no `weight_map`");
  std::map<std::string, std::string> map;
  for (const auto& [tensor, name] : json["weight_map"].items()) {
    if (!name.is_string() || name.get<std::string>().find('/') != std::string::npos)
      fail("an entry of its `weight_map` is not the name of a file in its folder");
    map[tensor] = name.get<std::string>();
  }
  return map;
}

}  // namespace

SavedTensors SavedTensors::open(const std::string& path) {
  SavedTensors saved;
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(fs::path(path) / name, ignored); };
  saved.path_ = path;
  if (!fs::is_directory(path, ignored)) {
    saved.add_file("", path, false);
    return saved;
  }
  if (has(manifest_name)) saved.manifest_ = read_manifest((fs::path(path) / manifest_name).string());
  if (has(model_index)) {
    saved.add_indexed(path, model_index, false);
    if (has(optimizer_index)) saved.add_indexed(path, optimizer_index, true);
  } else if (!saved.manifest_ && has("model.safetensors")) {
    saved.add_file(path, "model.safetensors", false);
  } else if (!saved.manifest_) {
    const CheckpointFolder folder(path);
    folder.require_whole_latest();
    const auto step = folder.latest();
    if (!step)
      throw Failure(Cause::data,
                    fmt::format("`{}` holds neither a checkpoint nor `{}` nor `model.safetensors`", path, model_index));
    return open(folder.finished(*step));
  }
  if (!saved.manifest_) return saved;
  for (const auto& [tensor, hash] : saved.manifest_->hashes)
    if (!saved.find(tensor))
      throw Failure(Cause::data,
                    fmt::format("`{}` is damaged: `{}` is in {}, but in no file", path, tensor, manifest_name));
  for (const NamedArray& tensor : saved.tensors_)
    if (!saved.manifest_->hashes.contains(tensor.name))
      throw Failure(Cause::data,
                    fmt::format("`{}` is damaged: {} has no hash of `{}`", path, manifest_name, tensor.name));
  for (const auto& [tensor, hash] : saved.manifest_->hashes) saved.where_.find(tensor)->second.hash = hash;
  return saved;
}

SavedTensors SavedTensors::open(std::span<const std::string> paths) {
  if (paths.size() == 1) return open(paths[0]);
  SavedTensors all;
  std::map<std::string, std::string, std::less<>> origins;
  for (const std::string& path : paths) {
    SavedTensors one = open(path);
    all.path_ += (all.path_.empty() ? "" : ", ") + one.path_;
    for (const NamedArray& tensor : one.tensors_) {
      if (one.of_optimizer(tensor.name)) continue;
      const auto [other, fresh] = origins.try_emplace(tensor.name, one.path_);
      if (!fresh)
        throw Failure(Cause::data,
                      fmt::format("`{}` is both in `{}` and in `{}`: which is meant? A file without it can "
                                  "be written by safetensors in Python",
                                  tensor.name, other->second, one.path_));
      Where where = one.where_.find(tensor.name)->second;
      where.tensor = all.tensors_.size();
      all.where_.try_emplace(tensor.name, std::move(where));
      all.tensors_.push_back(tensor);
    }
    std::ranges::move(one.files_, std::back_inserter(all.files_));
  }
  return all;
}

std::optional<uint64_t> SavedTensors::hash_of(std::string_view name) const {
  const auto found = where_.find(name);
  return found == where_.end() ? std::nullopt : found->second.hash;
}

void SavedTensors::add_indexed(const std::string& folder, const std::string& index, bool optimizer) {
  const std::map<std::string, std::string> map = read_index((fs::path(folder) / index).string());
  std::set<std::string> files;
  for (const auto& [tensor, file] : map) files.insert(file);
  for (const std::string& file : files) add_file(folder, file, optimizer);
  for (const auto& [tensor, file] : map)
    if (!find(tensor) || file_of(tensor) != file)
      throw Failure(Cause::data, fmt::format("`{}` is damaged: {} says that `{}` is in {}, where it is not", folder,
                                             index, tensor, file));
}

void SavedTensors::add_file(const std::string& folder, const std::string& name, bool optimizer) {
  const std::string path = (fs::path(folder) / name).string();
  std::error_code error;
  if (manifest_) {
    const auto known = manifest_->files.find(name);
    const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
    if (error) throw Failure(Cause::data, fmt::format("cannot read `{}`: {}", path, error.message()));
    if (known == manifest_->files.end() || known->second != bytes)
      throw Failure(Cause::data, known == manifest_->files.end()
                                     ? fmt::format("`{}` is damaged: {} does not know {}", folder, manifest_name, name)
                                     : fmt::format("`{}` is damaged: it has {} bytes, {} says {}", path, bytes,
                                                   manifest_name, known->second));
  }
  const Safetensors& file = files_.emplace_back(Safetensors::open(path));
  for (const NamedArray& tensor : file.tensors()) {
    const auto [known, fresh] =
        where_.try_emplace(tensor.name, Where{tensors_.size(), fs::path(name).filename().string(), optimizer});
    if (!fresh)
      throw Failure(Cause::data, fmt::format("`{}` is damaged: `{}` is both in {} and in {}", folder, tensor.name,
                                             known->second.file, name));
    tensors_.push_back(tensor);
  }
}

const NamedArray* SavedTensors::find(std::string_view name) const {
  const auto found = where_.find(name);
  return found == where_.end() ? nullptr : &tensors_[found->second.tensor];
}

const std::string& SavedTensors::file_of(std::string_view name) const { return where_.find(name)->second.file; }

bool SavedTensors::of_optimizer(std::string_view name) const {
  const auto found = where_.find(name);
  return found != where_.end() && found->second.optimizer;
}

int64_t SavedTensors::bytes() const {
  int64_t bytes = 0;
  for (const NamedArray& tensor : tensors_) bytes += static_cast<int64_t>(tensor.data.size());
  return bytes;
}

std::vector<std::byte> numbers_as(Type type, const NamedArray& tensor) {
  const size_t count = tensor.data.size() / size_of(tensor.type);
  std::vector<std::byte> numbers(count * size_of(type));
  if (const auto misfit = convert(tensor.data.data(), {number_of(tensor.type)}, static_cast<int64_t>(count), type, -1,
                                  numbers.data(), Overflow::infinity))
    throw Failure(Cause::data, fmt::format("number {} of `{}` is {}, which is no {}", misfit->index, tensor.name,
                                           misfit->number, name_of(type)));
  return numbers;
}

std::vector<std::string> damaged_tensors(const SavedTensors& saved) {
  std::vector<std::string> damaged;
  if (!saved.manifest()) return damaged;
  for (const NamedArray& tensor : saved.tensors())
    if (hash_elements(tensor.data, size_of(tensor.type), 0) != saved.manifest()->hashes.at(tensor.name))
      damaged.push_back(tensor.name);
  return damaged;
}

}  // namespace meshrt
