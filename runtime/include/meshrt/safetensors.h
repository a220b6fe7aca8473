// safetensors.h: named tensors in the file format of Hugging Face: eight bytes of length, a JSON header, the numbers,
// little-endian and row-major. What a checkpoint is made of and what other frameworks read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshrt/types.h"

namespace meshrt {

/// A tensor in a file, or to be written to one. `data` points to memory that somebody else keeps.
struct NamedArray {
  std::string name;
  Type type = Type::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

/// A file opened for reading; the numbers are read when they are touched.
class Safetensors {
 public:
  /// Throws Failure (Cause::data) that names the file, the tensor and the fault: the header is checked in full, so that
  /// every span lies within the file and fits its shape.
  static Safetensors open(const std::string& path);

  /// In the order of their place in the file. The spans live as long as this object or a copy of it.
  const std::vector<NamedArray>& tensors() const { return tensors_; }
  /// nullptr when there is none of this name.
  const NamedArray* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::shared_ptr<const class FileBytes> file_;
  std::vector<NamedArray> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// What stands before the numbers in a file of these tensors: the length and the header. Only names, types and shapes
/// are read; the numbers follow in the order given.
std::string safetensors_head(std::span<const NamedArray> tensors,
                             const std::map<std::string, std::string>& metadata = {});

/// Writes the tensors in the order given. Names must differ. Throws Failure (Cause::environment) when the file cannot
/// be written.
void write_safetensors(const std::string& path, std::span<const NamedArray> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace meshrt
