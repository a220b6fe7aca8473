#include "files/yaml_tree.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshrt {

namespace {

YamlNode map_at(Mark mark) {
  YamlNode node;
  node.kind = YamlNode::Kind::map;
  node.mark = mark;
  return node;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

std::string YamlNode::describe() const {
  switch (kind) {
    case Kind::null: return "nothing";
    case Kind::scalar: return quoted ? fmt::format("the text \"{}\"", scalar) : fmt::format("`{}`", scalar);
    case Kind::list: return "a list";
    case Kind::map: return "a map";
  }
  return "";
}

YamlNode parse_yaml(const RunText& texts, int index, RunErrors& errors) {
  return parse_text(texts.text(index).content, {index, 0}, errors);
}

void apply_override(YamlNode& root, const RunText& texts, int index, RunErrors& errors) {
  const std::string& text = texts.text(index).content;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return errors.add({index, 1, 1, static_cast<int>(text.size())},
                      fmt::format("`{}` is not of the form key=value", text));
  YamlNode* node = &root;
  for (size_t begin = 0; begin <= equals;) {
    const size_t end = std::min(text.find('.', begin), equals);
    const std::string key = text.substr(begin, end - begin);
    const Mark mark{index, 1, static_cast<int>(begin) + 1, static_cast<int>(key.size())};
    if (node->kind != YamlNode::Kind::map) *node = map_at(mark);
    auto found = std::find_if(node->entries.begin(), node->entries.end(), [&](const auto& e) { return e.key == key; });
    if (found == node->entries.end()) found = node->entries.insert(node->entries.end(), {key, mark, {}});
    // From here on the command line is what brought this key.
    if (end == equals) found->mark = mark;
    node = &found->value;
    begin = end + 1;
  }
  const size_t value = equals + 1;
  *node = parse_text(text.substr(value), {index, static_cast<int>(value)}, errors);
  if (node->kind == YamlNode::Kind::null) node->mark = {index, 1, 1, static_cast<int>(equals)};
}

}  // namespace meshrt
