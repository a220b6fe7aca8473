#include "meshrt/rename_map.h"

#include <fmt/format.h>

#include <filesystem>

#include "driver/file_bytes.h"
#include "driver/yaml_tree.h"

namespace meshrt {

RenameMap RenameMap::read(const std::string& path) {
  const auto file = FileBytes::open(path, Compression::none);
  RunText text;
  RunErrors errors(text);
  text.add({path, {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, ""});
  const YamlNode root = parse_yaml(text, 0, errors);
  errors.throw_if_any();
  RenameMap map;
  std::map<std::string, std::string> taken;
  if (root.kind != YamlNode::Kind::map)
    errors.add(root.mark, fmt::format("a map of names is expected, not {}", root.describe()), "`ours: theirs`");
  for (const auto& entry : root.entries) {
    if (entry.value.kind != YamlNode::Kind::scalar || entry.value.scalar.empty()) {
      errors.add(entry.value.mark,
                 fmt::format("`{}` is called by {}, not by a name", entry.key, entry.value.describe()));
    } else if (const auto [other, fresh] = taken.try_emplace(entry.value.scalar, entry.key); !fresh) {
      errors.add(entry.value.mark, fmt::format("`{}` is the name of `{}` already", entry.value.scalar, other->second));
    } else {
      map.names_[entry.key] = entry.value.scalar;
    }
  }
  errors.throw_if_any();
  return map;
}

const std::string& RenameMap::of(const std::string& tensor) const {
  const auto found = names_.find(tensor);
  return found == names_.end() ? tensor : found->second;
}

std::vector<std::string> RenameMap::tensors() const {
  std::vector<std::string> tensors;
  for (const auto& [tensor, name] : names_) tensors.push_back(tensor);
  return tensors;
}

}  // namespace meshrt
