#include "codegen/layout/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/layout/placement.h"

namespace mesh {

const char* name_of(RuleScope scope) {
  switch (scope) {
    case RuleScope::general: return "";
    case RuleScope::params: return "params";
    case RuleScope::grads: return "grads";
    case RuleScope::optimizer: return "optimizer";
    case RuleScope::activations: return "activations";
    case RuleScope::state: return "state";
  }
  return "";
}
namespace {

bool scope_covers(RuleScope scope, ValueKind kind) {
  switch (scope) {
    case RuleScope::general: return true;
    case RuleScope::params: return kind == ValueKind::parameter;
    case RuleScope::grads: return kind == ValueKind::gradient;
    case RuleScope::optimizer: return kind == ValueKind::optimizer;
    case RuleScope::activations: return kind == ValueKind::activation || kind == ValueKind::nameless;
    case RuleScope::state: return kind == ValueKind::state;
  }
  return false;
}

bool side_by_side(const std::vector<DimId>& merged, const std::vector<DimId>& dims) {
  return std::search(dims.begin(), dims.end(), merged.begin(), merged.end()) != dims.end();
}

}  // namespace

std::string rule_text(const Graph& graph, const MeshShape& mesh, const Rule& rule) {
  const auto dim_name = [&](DimId id) { return graph.dim(id).name; };
  std::vector<std::string> dims, axes, unless;
  for (const DimId id : rule.dims) dims.push_back(dim_name(id));
  for (const AxisId axis : rule.axes) axes.push_back(mesh.axes[axis].name);
  for (const DimId id : rule.unless) unless.push_back(dim_name(id));
  const std::string part = dims.size() == 1 ? "" : dims[rule.part] + " of ";
  std::string text = fmt::format("{}{} -> {}", part, fmt::join(dims, " * "),
                                 axes.empty() ? "none" : fmt::format("{}", fmt::join(axes, " * ")));
  if (!unless.empty()) text += fmt::format(" unless {}", fmt::join(unless, ", "));
  text += owns_text(rule.deal);
  if (rule.scope != RuleScope::general) text = std::string(name_of(rule.scope)) + " { " + text + " }";
  if (rule.pin) text = "tensor " + rule.pin->text() + " { " + text + " }";
  if (rule.in) text = "in " + rule.in->text() + " { " + text + " }";
  return text;
}

std::vector<const Rule*> added_rules(const Layout& layout) {
  std::vector<const Rule*> added;
  for (const Rule& rule : layout.rules)
    if (!rule.because.empty()) added.push_back(&rule);
  return added;
}

bool lies_under(const Glob& in, const std::string& path) {
  if (in.matches(path)) return true;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
    if (in.matches(path.substr(0, dot))) return true;
  return false;
}

bool ValuePaths::match(const Glob& pin) const {
  return pin.matches(path) || std::ranges::any_of(others, [&](const std::string& other) { return pin.matches(other); });
}

std::map<std::string, std::vector<std::string>> other_names_of_stored(const Graph& graph) {
  const auto stacked_of = [&](ValueId turn) {
    if (const auto* loop = std::get_if<LoopOp>(&graph.node(graph.value(turn).producer).op))
      for (const auto& slice : loop->slices)
        if (slice.turn == turn) return slice.stacked;
    return ValueId{};
  };
  std::map<std::string, std::vector<std::string>> found;
  for (uint32_t i = 0; i < graph.values.size(); ++i) {
    const std::vector<std::string>& names = graph.values[i].other_names;
    if (names.empty()) continue;
    ValueId origin{i};
    while (const ValueId stacked = stacked_of(origin)) origin = stacked;
    if (const auto* read = std::get_if<ReadOp>(&graph.node(graph.value(origin).producer).op)) {
      std::vector<std::string>& all = found[graph.stored[read->stored.index].path];
      all.insert(all.end(), names.begin(), names.end());
    }
  }
  return found;
}

ValuePaths paths_of_output(const Graph& graph, const Output& output) {
  ValuePaths paths{output.name, graph.value(output.value).other_names};
  if (const std::string& name = graph.value(output.value).name; !name.empty()) paths.others.push_back(name);
  return paths;
}

std::optional<int> rule_rank(const Rule& rule, ValueKind kind, const ValuePaths& paths, const std::vector<DimId>& dims,
                             DimId dim) {
  if (rule.dims[rule.part] != dim || !scope_covers(rule.scope, kind)) return std::nullopt;
  if (rule.dims.size() > 1 && !side_by_side(rule.dims, dims)) return std::nullopt;
  if (std::any_of(rule.unless.begin(), rule.unless.end(), [&](DimId d) { return has(dims, d); })) return std::nullopt;
  if (rule.pin && kind == ValueKind::nameless) return std::nullopt;
  if (rule.pin) return paths.match(*rule.pin) ? std::optional(1'000'000) : std::nullopt;
  int rank = rule.scope == RuleScope::general ? 0 : 1;
  if (rule.in) {
    if (!lies_under(*rule.in, paths.path)) return std::nullopt;
    // Deeper `in` first; a scope inside it stands between it and the scope outside.
    rank = 10 * static_cast<int>(rule.in->parts.size()) + (rule.scope == RuleScope::general ? 1 : 2);
  }
  return rank;
}

namespace {

const Rule* best(const Layout& layout, ValueKind kind, const ValuePaths& paths, const std::vector<DimId>& dims,
                 DimId dim) {
  const Rule* found = nullptr;
  int top = -1;
  for (const Rule& rule : layout.rules)
    if (const auto r = rule_rank(rule, kind, paths, dims, dim); r && *r >= top) {
      top = *r;
      found = &rule;
    }
  return found;
}

/// Where no replicas train, texts that are generated say, the ranks of both rules have parts of the samples.
void join_rules_of_samples(Layout& layout) {
  const auto by_sync = std::ranges::find(layout.rules, layout.replicas.rule, &Rule::span);
  const auto own = std::ranges::find_if(layout.rules, [&](const Rule& rule) {
    return by_sync != layout.rules.end() && rule.span != by_sync->span && rule.dims == by_sync->dims &&
           rule.scope == RuleScope::general && !rule.in && !rule.pin;
  });
  if (own == layout.rules.end()) return;
  by_sync->axes.insert(by_sync->axes.end(), own->axes.begin(), own->axes.end());
  layout.rules.erase(own);
}

}  // namespace

const Rule* rule_for(const Layout& layout, ValueKind kind, const ValuePaths& paths, const std::vector<DimId>& dims,
                     DimId dim) {
  const Rule* own = best(layout, kind, paths, dims, dim);
  if (kind != ValueKind::gradient && kind != ValueKind::optimizer) return own;
  const RuleScope scope = kind == ValueKind::gradient ? RuleScope::grads : RuleScope::optimizer;
  if (own && own->scope == scope) return own;
  return best(layout, ValueKind::parameter, paths, dims, dim);
}

Layout for_parts(const Layout& layout, const Graph& graph) {
  Layout result = layout;
  if (layout.replicas && !graph.replicas.turns) join_rules_of_samples(result);
  for (Rule& rule : result.rules)
    for (const SampleParts* parts : {&graph.micro_batches, &graph.replicas}) {
      const bool by_sync = layout.replicas && rule.span == layout.replicas.rule;
      if (!parts->turns || (by_sync && parts != &graph.replicas)) continue;
      std::replace(rule.dims.begin(), rule.dims.end(), parts->samples, by_sync ? parts->turns : parts->part);
      std::replace(rule.unless.begin(), rule.unless.end(), parts->samples, parts->part);
      for (const SampleParts::Name& name : parts->names)
        for (std::vector<DimId>* dims : {&rule.dims, &rule.unless})
          std::replace(dims->begin(), dims->end(), name.samples, name.part);
    }
  return result;
}

bool may_split(const Layout& layout, const std::vector<DimId>& dims, DimId dim, DimId beside) {
  const auto splits = [&](DimId of, AxisId axis, const std::vector<DimId>& among) {
    return std::ranges::any_of(layout.rules, [&](const Rule& rule) {
      if (rule.scope != RuleScope::general && rule.scope != RuleScope::activations) return false;
      const bool kept = std::ranges::any_of(rule.unless, [&](DimId one) { return has(among, one); });
      return contains(rule.axes, axis) && has(rule.dims, of) && !kept;
    });
  };
  for (AxisId axis = 0; axis != layout.mesh.axes.size(); ++axis)
    if (splits(dim, axis, dims) && !(beside && splits(beside, axis, {}))) return true;
  return false;
}

}  // namespace mesh
