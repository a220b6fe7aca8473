#include "codegen/gradient/computed_again.h"

#include <algorithm>
#include <vector>

namespace mesh {

bool lies_under(std::string_view name, std::string_view path) {
  return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.');
}

namespace {

class Makers {
 public:
  Makers(const Graph& graph, const std::set<std::string>& paths) : graph_(graph), paths_(paths) {}

  std::set<NodeId> run() {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_meant(graph_.nodes[i])) add({i});
    return std::move(found_);
  }

 private:
  bool is_meant(const Node& node) const {
    return std::ranges::any_of(paths_, [&](const std::string& path) {
      const auto lies = [&](const std::string& name) { return lies_under(name, path); };
      return lies(node.scope) ||
             std::ranges::any_of(node.results, [&](ValueId one) { return graph_.value(one).any_name(lies); });
    });
  }

  void add(NodeId id) {
    if (!found_.insert(id).second) return;
    const Node& node = graph_.node(id);
    for (const ValueId input : node.inputs) {
      const Value& value = graph_.value(input);
      const Node& producer = graph_.node(value.producer);
      if (value.name.empty() && producer.body == node.body && producer.scope == node.scope) add(value.producer);
    }
  }

  const Graph& graph_;
  const std::set<std::string>& paths_;
  std::set<NodeId> found_;
};

}  // namespace

std::set<NodeId> makers_of(const Graph& graph, const std::set<std::string>& paths) {
  return paths.empty() ? std::set<NodeId>() : Makers(graph, paths).run();
}

}  // namespace mesh
