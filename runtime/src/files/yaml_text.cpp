// The text of a tree is YAML, read and written by yaml-cpp. A bundle, which has to build without it, takes
// json_text.cpp in this file's place.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "files/yaml_tree.h"

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

/// Where a line up to `last` (the first is 0) is indented by a tab, which YAML refuses for other reasons.
std::optional<YAML::Mark> indenting_tab(const std::string& content, int last) {
  YAML::Mark place;
  place.line = 0;
  for (size_t at = 0; place.line <= last && at <= content.size(); ++place.line) {
    const size_t text = std::min(content.find_first_not_of(" \t", at), content.size());
    const size_t tab = content.find('\t', at);
    place.column = static_cast<int>(tab - at);
    if (tab < text) return place;
    const size_t end = content.find('\n', at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return std::nullopt;
}

/// Hears where documents begin, and nothing else.
class Documents : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { begins.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  std::vector<YAML::Mark> begins;
};

/// Where a second document begins, if there is one. (YAML::LoadAll does not end where a sign is out of place: it takes
/// it for one empty document after the other.)
std::optional<YAML::Mark> second_document(const std::string& content) {
  std::istringstream stream(content);
  YAML::Parser parser(stream);
  Documents documents;
  while (documents.begins.size() < 2 && parser.HandleNextDocument(documents)) {}
  return documents.begins.size() < 2 ? std::nullopt : std::optional(documents.begins[1]);
}

}  // namespace

YamlNode parse_text(const std::string& content, TextPlace place, RunErrors& errors) {
  const auto [text, column_shift] = place;
  try {
    if (const auto second = second_document(content)) {
      errors.add({text, second->line + 1, second->column + 1 + (second->line == 0 ? column_shift : 0), 1},
                 "one document is expected, here a second one begins");
      return {};
    }
    return TreeMaker(text, column_shift, errors).make(YAML::Load(content));
  } catch (const YAML::Exception& error) {
    if (const auto tab = indenting_tab(content, error.mark.line); tab && place.column_shift == 0)
      return errors.add({text, tab->line + 1, tab->column + 1, 1}, "a tab indents this line",
                        "YAML takes spaces alone"),
             YamlNode{};
    const Mark mark{text, std::max(0, error.mark.line) + 1,
                    std::max(0, error.mark.column) + 1 + (error.mark.line <= 0 ? column_shift : 0), 1};
    const auto at = static_cast<size_t>(std::max(0, error.mark.pos));
    const bool pattern = at < content.size() && content[at] == '*';  // a reference to an anchor, for YAML
    errors.add(mark, "this is not YAML: " + error.msg, pattern ? "what begins with `*` stands in quotes" : "");
    return {};
  }
}

std::string tree_text(const YamlNode& root, const std::map<Mark, std::string>& replaced) {
  if (root.kind == YamlNode::Kind::null) return "";
  YAML::Emitter out;
  write(out, root, replaced, 0);
  return std::string(out.c_str()) + "\n";
}

}  // namespace meshrt
