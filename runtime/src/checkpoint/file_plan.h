// file_plan.h: which tensor of a checkpoint lies where: the same on every rank, made from names and shapes alone, so
// that ranks write one file together without a word.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/checkpoint.h"

namespace meshrt {

struct FilePlan {
  struct File {
    std::string name;  ///< "model-00001-of-00002.safetensors"
    std::string head;  ///< what stands before the numbers
    int64_t bytes = 0;
  };
  struct Place {
    size_t file = 0;
    int64_t offset = 0;  ///< of the first number in the file
  };
  struct Index {
    std::string name, text;  ///< "model.safetensors.index.json"
  };
  std::vector<File> files;
  std::vector<Place> places;  ///< of each tensor
  std::vector<Index> indexes;
};

/// Files of at most `file_bytes` of numbers, unless one tensor alone has more.
FilePlan plan_files(std::span<const SavedShape> tensors, int64_t file_bytes);

/// The manifest as a file of a checkpoint, and back. Reading throws Failure (Cause::data) that names the file.
inline constexpr const char* manifest_name = "checkpoint.json";
std::string manifest_text(const Manifest& manifest);
Manifest read_manifest(const std::string& path);

}  // namespace meshrt
