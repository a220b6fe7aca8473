#include "codegen/program/buffer_names.h"

#include <algorithm>

namespace mesh {

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

StoredNames::StoredNames(const Graph& graph) : graph_(graph) {
  std::unordered_set<std::string_view> known;
  for (uint32_t i = 0; i < graph.stored.size(); ++i) {
    const Stored& stored = graph.stored[i];
    by_path_.try_emplace(stored.path, StoredId{i});
    if (stored.kind != StoredKind::optimizer && known.insert(stored.path).second) ++paths_[last_part(stored.path)];
  }
}

std::string StoredNames::of(StoredId id) const {
  const Stored& stored = graph_.stored[id.index];
  const std::string last(last_part(stored.path));
  if (stored.kind == StoredKind::optimizer && stored.parameter) return of(stored.parameter) + "_" + last;
  if (stored.kind == StoredKind::optimizer) {
    std::string whole = stored.path;
    std::ranges::replace(whole, '.', '_');
    return whole;
  }
  if (paths_.at(last_part(stored.path)) == 1 || last == stored.path) return last;
  const std::string_view around = std::string_view(stored.path).substr(0, stored.path.rfind('.'));
  return std::string(last_part(around)) + "_" + last;
}

std::optional<StoredId> StoredNames::with_path(std::string_view path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? std::nullopt : std::optional(found->second);
}

std::string BufferNames::unique(const std::string& wish) {
  for (; known_ < program_.buffers.size(); ++known_) taken_.insert(program_.buffers[known_].name);
  if (taken_.insert(wish).second) return wish;
  size_t& number = least_.try_emplace(wish, 2).first->second;
  std::string name = wish + "_" + std::to_string(number);
  while (!taken_.insert(name).second) name = wish + "_" + std::to_string(++number);
  return name;
}

void BufferNames::free(const std::string& name) {
  taken_.erase(name);
  least_.clear();
}

}  // namespace mesh
