// rename_map.h: what the tensors of a program are called in files of another origin. A YAML map, one line a tensor:
//
//   wte: transformer.wte.weight
//   layer.attn.wq: old.wq
#pragma once
#include <map>
#include <string>
#include <vector>

namespace meshrt {

class RenameMap {
 public:
  /// Throws Failure (Cause::data) that names the file and the line.
  static RenameMap read(const std::string& path);

  /// What `tensor` is called in the file: itself, where the map does not say.
  const std::string& of(const std::string& tensor) const;
  /// The names on the left.
  std::vector<std::string> tensors() const;

 private:
  std::map<std::string, std::string> names_;
};

}  // namespace meshrt
