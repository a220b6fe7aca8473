// rename_map.h: what the tensors of a program are called in files of another origin. A YAML map, one line a tensor:
//
//   wte: transformer.wte.weight
//   layer.norm1.gain: h.{layer}.ln_1.weight                                         # a tensor for each layer there
//   layer.attn.w: h.{layer}.attn.c_attn.weight [embed, three * heads * head_dim]    # dims that are one there
//
// The dim in braces is the tensor's first one. Its numbers lie in the same order there.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/safetensors.h"

namespace meshrt {

/// What one tensor is called elsewhere.
struct Renaming {
  std::string before, after;      ///< of the name; what stands between them is the index of the first dim
  std::string stacked;            ///< that dim, if there are braces
  std::vector<std::string> dims;  ///< those that the map writes, without the one in braces; none: the tensor's own
  std::vector<size_t> merged;     ///< how many of them make up each dim there
  std::string name(int64_t index = 0) const;
  /// The shape there of a tensor of these sizes, or of each part of it where it is stacked.
  std::vector<int64_t> shape(std::span<const int64_t> sizes) const;
  /// What is wrong for a tensor with so many dims, and, where they are known, of these names; empty: nothing.
  std::string fault(size_t dims, std::span<const std::string> names = {}) const;
};

class RenameMap {
 public:
  /// Throws Failure (Cause::data) that names the file and the line.
  static RenameMap read(const std::string& path);

  /// What `tensor` is called in the file: itself, where the map does not say.
  Renaming of(const std::string& tensor) const;
  /// The names on the left.
  std::vector<std::string> tensors() const;

 private:
  std::map<std::string, Renaming> names_;
};

/// The tensors of a file that make up one of a program.
struct Pieces {
  std::vector<std::string> names;  ///< what they must be called
  std::vector<const NamedArray*>
      arrays;  ///< in their order along the first dim; empty where one is missing or does not fit
  std::vector<std::string> missing;
  std::string misfit;  ///< a sentence
};
using FindArray = std::function<const NamedArray*(const std::string&)>;
Pieces pieces_of(const std::string& tensor, std::span<const std::string> dims, std::span<const int64_t> sizes,
                 const RenameMap& names, const FindArray& find);

/// Throws Failure (Cause::data) that lists what the map names but `saved` lacks, dims that a tensor does not have (as
/// far as its manifest tells them), and tensors that would have one name.
void check_names(const RenameMap& names, const SavedTensors& saved);

/// The parts of a tensor under their names elsewhere. Throws Failure (Cause::data) where the map does not fit it.
std::vector<NamedArray> renamed(const NamedArray& tensor, const RenameMap& names);

}  // namespace meshrt
