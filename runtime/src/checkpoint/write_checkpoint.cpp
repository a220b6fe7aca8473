// A checkpoint from tensors that one process has whole.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "checkpoint/file_plan.h"
#include "checkpoint/output_file.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

/// A folder that is removed with what is in it, unless it is kept.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(std::string path) : path_(std::move(path)) {}
  ~UnfinishedFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

}  // namespace

void write_checkpoint(const std::string& path, std::span<const NamedArray> tensors,
                      const std::vector<std::string>& optimizer, Manifest manifest, int64_t file_bytes) {
  namespace fs = std::filesystem;
  const fs::path parent = fs::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) fs::create_directories(parent, error);
  if (!fs::create_directory(path, error))
    throw Failure(Cause::environment,
                  fmt::format("cannot write `{}`: {}", path, error ? error.message() : "it is there already"));
  UnfinishedFolder folder(path);
  std::vector<SavedShape> shapes;
  for (const NamedArray& tensor : tensors)
    shapes.push_back(
        {tensor.name, tensor.type, tensor.shape, std::ranges::find(optimizer, tensor.name) != optimizer.end()});
  const FilePlan plan = plan_files(shapes, file_bytes);
  const auto at = [&](const std::string& name) { return (fs::path(path) / name).string(); };
  manifest.files.clear(), manifest.hashes.clear();
  for (size_t f = 0; f < plan.files.size(); ++f) {
    OutputFile file(at(plan.files[f].name));
    file.reserve(plan.files[f].bytes);
    file.write(0, std::as_bytes(std::span(plan.files[f].head)));
    for (size_t t = 0; t < tensors.size(); ++t)
      if (plan.places[t].file == f) file.write(plan.places[t].offset, tensors[t].data);
    file.sync();
    manifest.files[plan.files[f].name] = plan.files[f].bytes;
  }
  for (const NamedArray& tensor : tensors)
    manifest.hashes[tensor.name] = hash_elements(tensor.data, size_of(tensor.type), 0);
  for (const FilePlan::Index& index : plan.indexes) write_durably(at(index.name), index.text);
  write_durably(at(manifest_name), manifest_text(manifest));
  sync_folder(path);
  folder.keep();
}

}  // namespace meshrt
