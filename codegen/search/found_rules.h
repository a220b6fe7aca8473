// found_rules.h: the rules of a layout as a search changes them: by name, one dim (or merged dim) a rule.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "frontend/ast.h"

namespace mesh {

struct FoundRule {
  std::string scope;              // "params"; empty: a rule of the layout itself
  std::vector<std::string> dims;  // one, or those of a merged dim
  std::vector<std::string> axes;  // major first; empty: `none`
  std::vector<std::string> unless = {};
  std::vector<std::pair<std::string, std::string>> attributes = {};  // as they are written: {"schedule", "\"1f1b\""}
  auto operator<=>(const FoundRule&) const = default;

  std::string dim_text() const;     // "kv * group"
  std::string target_text() const;  // "model unless heads { accumulate: 4 }"
  bool same_place(const FoundRule& other) const { return scope == other.scope && dims == other.dims; }
};

using FoundRules = std::vector<FoundRule>;

/// A line of a layout: rules of one scope that say the same of several dims.
struct FoundLine {
  std::string text;           // "heads, ffn -> model", "params { embed -> data }"
  std::vector<size_t> rules;  // by index
};

/// In the order in which people write them: rules of the layout itself, then those of its scopes.
std::vector<FoundLine> lines_of(const FoundRules&);

/// As the parser would make them, with a span of its own for each rule: `at`, of no length, and what follows it.
ast::Rules to_ast(const FoundRules&, Span at);

}  // namespace mesh
