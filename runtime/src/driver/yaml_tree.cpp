#include "driver/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

namespace meshrt {

namespace {

// Copies yaml-cpp's graph into a tree. Aliases could make it endless or enormous, so depth and size are bounded.
class TreeMaker {
 public:
  TreeMaker(int text, int column_shift, RunErrors& errors)
      : text_(text), column_shift_(column_shift), errors_(errors) {}

  YamlNode make(const YAML::Node& from, int depth = 0) {
    constexpr int deepest = 16, most = 10'000;
    YamlNode node;
    node.mark = mark_of(from);
    if (depth > deepest || ++nodes_ > most) {
      if (!too_large_) errors_.add(node.mark, "the text is nested too deeply or too large");
      too_large_ = true;
      return node;
    }
    if (from.IsScalar()) {
      node.kind = YamlNode::Kind::scalar;
      node.scalar = from.Scalar();
      node.quoted = from.Tag() == "!";
      node.mark.length = static_cast<int>(node.scalar.size()) + (node.quoted ? 2 : 0);
    } else if (from.IsSequence()) {
      node.kind = YamlNode::Kind::list;
      for (const YAML::Node& item : from) node.items.push_back(make(item, depth + 1));
    } else if (from.IsMap()) {
      node.kind = YamlNode::Kind::map;
      for (const auto& entry : from) add_entry(node, entry.first, entry.second, depth);
    }
    return node;
  }

 private:
  Mark mark_of(const YAML::Node& node) const {
    const YAML::Mark at = node.Mark();
    return {text_, std::max(0, at.line) + 1, std::max(0, at.column) + 1 + (at.line <= 0 ? column_shift_ : 0), 1};
  }

  void add_entry(YamlNode& map, const YAML::Node& key, const YAML::Node& value, int depth) {
    Mark mark = mark_of(key);
    if (!key.IsScalar()) return errors_.add(mark, "a key must be a name", "this is not one");
    mark.length = static_cast<int>(key.Scalar().size()) + (key.Tag() == "!" ? 2 : 0);
    const auto same =
        std::find_if(map.entries.begin(), map.entries.end(), [&](const auto& e) { return e.key == key.Scalar(); });
    if (same != map.entries.end())
      return errors_.add(mark, fmt::format("`{}` is given twice", key.Scalar()),
                         fmt::format("first on line {}", same->mark.line));
    map.entries.push_back({key.Scalar(), mark, make(value, depth + 1)});
    // An empty value has no place of its own.
    if (YamlNode& made = map.entries.back().value; made.kind == YamlNode::Kind::null) made.mark = mark;
  }

  int text_, column_shift_, nodes_ = 0;
  bool too_large_ = false;
  RunErrors& errors_;
};

void write(YAML::Emitter& out, const YamlNode& node, const std::map<Mark, std::string>& replaced, int depth) {
  switch (node.kind) {
    case YamlNode::Kind::null: out << YAML::Null; break;
    case YamlNode::Kind::scalar: {
      if (node.quoted) out << YAML::DoubleQuoted;
      const auto other = replaced.find(node.mark);
      out << (other == replaced.end() ? node.scalar : other->second);
      break;
    }
    case YamlNode::Kind::list:
      out << YAML::Flow << YAML::BeginSeq;
      for (const YamlNode& item : node.items) write(out, item, replaced, depth + 1);
      out << YAML::EndSeq;
      break;
    case YamlNode::Kind::map:
      if (depth > 1) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const YamlNode::Entry& entry : node.entries) {
        out << YAML::Key << entry.key << YAML::Value;
        write(out, entry.value, replaced, depth + 1);
      }
      out << YAML::EndMap;
      break;
  }
}

YamlNode map_at(Mark mark) {
  YamlNode node;
  node.kind = YamlNode::Kind::map;
  node.mark = mark;
  return node;
}

YamlNode parse(const std::string& content, int text, int column_shift, RunErrors& errors) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(content);
    TreeMaker maker(text, column_shift, errors);
    if (documents.size() > 1)
      errors.add({text, 1, 1, 1}, fmt::format("one document is expected, these are {}", documents.size()));
    return documents.empty() ? YamlNode{} : maker.make(documents[0]);
  } catch (const YAML::Exception& error) {
    const Mark mark{text, std::max(0, error.mark.line) + 1,
                    std::max(0, error.mark.column) + 1 + (error.mark.line <= 0 ? column_shift : 0), 1};
    errors.add(mark, "this is not YAML: " + error.msg);
    return {};
  }
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
  return parse(texts.text(index).content, index, 0, errors);
}

std::string yaml_text(const YamlNode& root, const std::map<Mark, std::string>& replaced) {
  if (root.kind == YamlNode::Kind::null) return "";
  YAML::Emitter out;
  write(out, root, replaced, 0);
  return std::string(out.c_str()) + "\n";
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
  *node = parse(text.substr(value), index, static_cast<int>(value), errors);
  if (node->kind == YamlNode::Kind::null) node->mark = {index, 1, 1, static_cast<int>(equals)};
}

}  // namespace meshrt
