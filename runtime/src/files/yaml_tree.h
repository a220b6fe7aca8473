// yaml_tree.h: a YAML text as a tree whose nodes know their places; overrides from the command line are grafted into
// it.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/run_text.h"

namespace meshrt {

struct YamlNode {
  enum class Kind { null, scalar, list, map } kind = Kind::null;
  Mark mark;
  std::string scalar;
  bool quoted = false;  ///< "10" in quotes is text, not a number
  std::vector<YamlNode> items;
  struct Entry;
  std::vector<Entry> entries;  ///< in the order of the text

  /// nullptr when the map has no such key.
  const YamlNode* find(std::string_view key) const;
  /// "a number", "a list", ...: what it is, for messages.
  std::string describe() const;
};

struct YamlNode::Entry {
  std::string key;
  Mark mark;
  YamlNode value;
};

/// The tree of text `index`. Reports what is not YAML, and keys that are given twice, into `errors`.
YamlNode parse_yaml(const RunText& texts, int index, RunErrors& errors);

/// Where a piece of text comes from: text `index` of the run, its first line after `column_shift` other characters.
struct TextPlace {
  int index = 0, column_shift = 0;
};
YamlNode parse_text(const std::string& content, TextPlace place, RunErrors& errors);

/// The tree as YAML (in a bundle JSON, which is YAML too), with the texts of `replaced` in place of the scalars at
/// their marks.
std::string tree_text(const YamlNode& root, const std::map<Mark, std::string>& replaced);

/// Sets "a.b.c=value", the text `index`, in `root`: the value is YAML and replaces what was there; maps on the way are
/// made as needed.
void apply_override(YamlNode& root, const RunText& texts, int index, RunErrors& errors);

}  // namespace meshrt
