#include "codegen/graph/elaborate/names.h"

#include <algorithm>
#include <cmath>

#include "codegen/graph/elaborate/terms.h"
#include "codegen/graph/glob.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

Glob glob_of(const std::string& text) {
  Glob glob;
  size_t begin = 0;
  for (size_t dot = text.find('.'); dot != std::string::npos; dot = text.find('.', begin)) {
    glob.parts.push_back(text.substr(begin, dot - begin));
    begin = dot + 1;
  }
  glob.parts.push_back(text.substr(begin));
  return glob;
}

bool is_wanted(const Elaboration& e, const std::string& path) {
  return std::any_of(e.options.want_values.begin(), e.options.want_values.end(),
                     [&](const std::string& wanted) { return wanted == path || glob_of(wanted).matches(path); });
}

/// A value to fetch: numbers and masked values have none of their own.
ValueId fetched(Elaboration& e, const Term& term) {
  if (!term.is_masked()) return tensor_of(e, term, e.build.span);
  const ValueId absent = e.build.literal(-INFINITY, e.type(term.value).element);
  return e.build.map(MapFunction::where, {term.keep, term.value, absent});
}

}  // namespace

void record_name(Elaboration& e, const std::string& path, const Term& term) {
  e.tables.known.insert(path);
  if (term.poisoned()) return;
  const ValueId kept = is_wanted(e, path) ? fetched(e, term) : ValueId{};
  if (kept) e.tables.wanted[path] = kept;
  const ValueId value = term.is_tensor() ? term.value : kept;
  if (!value) return;
  Value& named = e.graph.value(value);
  if (named.name.empty() && named.body == e.build.body) named.name = path;
  e.graph.names[path] = value;
}

void collect_wanted(Elaboration& e, const Loop& loop, LoopOp& op, Node& node, BodyId outer) {
  for (auto& [path, value] : e.tables.wanted) {
    if (e.graph.value(value).body != loop.body) continue;
    ValueType type = e.type(value);
    type.dims.insert(type.dims.begin(), loop.dim);
    const ValueId stacked = e.build.argument(type, outer, loop.node, path);
    op.collects.push_back({value, stacked});
    node.results.push_back(stacked);
    value = stacked;
  }
}

void finish_wanted(Elaboration& e) {
  for (const auto& [path, value] : e.tables.wanted) e.graph.wanted.push_back({path, value});
  for (const std::string& wanted : e.options.want_values) {
    const Glob glob = glob_of(wanted);
    if (std::any_of(e.tables.known.begin(), e.tables.known.end(),
                    [&](const std::string& path) { return path == wanted || glob.matches(path); }))
      continue;
    auto report = e.error("E0209", Span{}, "no value is called `{}`", wanted);
    const std::vector<std::string> known(e.tables.known.begin(), e.tables.known.end());
    if (const auto near = did_you_mean(wanted, known)) report.help(fmt::format("did you mean `{}`?", *near));
  }
}

}  // namespace mesh::elaboration
