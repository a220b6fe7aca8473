// rules.h: what a layout says of one dim of one value: which rule goes before which.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/layout/mesh.h"

namespace mesh {

/// What a value is to the rules. `activation`: neither stored, nor a parameter's gradient, nor a model's output;
/// `nameless`: the same within an expression, which no pin names.
enum class ValueKind : uint8_t { input, parameter, gradient, optimizer, state, activation, nameless, output };

/// How rules know a value. A pin holds under each of its names, `in` where `path` lies: an expression has no name, and
/// its path is that of the block around it.
struct ValuePaths {
  std::string path;
  std::vector<std::string> others = {};

  bool match(const Glob& pin) const;
};
/// Other names of what is stored, by its path: those of its turns too. What has none is left out.
std::map<std::string, std::vector<std::string>> other_names_of_stored(const Graph&);
/// An output is its value under one more name.
ValuePaths paths_of_output(const Graph&, const Output&);

/// The rule that decides `dim` of a value, or null where none does. Precedence: tensor pin, then `in` (deeper path
/// first), then scope, then general; a scope inside `in` ranks between `in` and scope; the last one written wins among
/// equals (resolve reports two of equal rank). Gradients and optimizer state take the parameter's rule unless their own
/// scope names the dim; the paths are then the parameter's. A merged dim's rule concerns only values with all its dims
/// side by side, and answers for the part of it that its axes are for.
const Rule* rule_for(const Layout&, ValueKind, const ValuePaths&, const std::vector<DimId>& dims, DimId dim);

/// As a layout would say it: `params { embed -> data }`, `key -> ctx unless seq { owns: "zigzag" }`.
std::string rule_text(const Graph&, const MeshShape&, const Rule&);
/// Those that no spec says.
std::vector<const Rule*> added_rules(const Layout&);

/// The same rules where the graph's samples are in parts: what is said of samples holds of each part, of the smallest
/// where there are parts of parts; what makes replicas of the samples holds of these. Where no replicas train, it is
/// one with the rule for what a replica has.
Layout for_parts(const Layout&, const Graph&);

/// Whether `in PATH` covers what has this path: that one, or what lies under it.
bool lies_under(const Glob& in, const std::string& path);

/// Whether some rule gives `dim` to an axis, for any value with these dims, to which none gives `beside` of any value
/// (unset: to any): a rule for all values or for activations, since others leave what a step computes as it is.
bool may_split(const Layout&, const std::vector<DimId>& dims, DimId dim, DimId beside = {});

/// How strongly a rule speaks of `dim` of a value: the largest rank wins; nothing where it does not concern it.
std::optional<int> rule_rank(const Rule&, ValueKind, const ValuePaths&, const std::vector<DimId>& dims, DimId dim);

}  // namespace mesh
