#include "codegen/search/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "codegen/graph/dims.h"
#include "codegen/graph/free_turns.h"

namespace mesh {
namespace {

constexpr size_t most_orders = 2;  // of so many axes every order is a choice, of more only the mesh's own

const std::vector<std::string> scopes{"", "activations", "params", "grads", "optimizer", "state"};

size_t rank_of(const std::string& scope) { return std::ranges::find(scopes, scope) - scopes.begin(); }

bool share(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& one) { return std::ranges::find(b, one) != b.end(); });
}

/// Loops whose turns need one another: they can be stages, not parts.
std::set<DimId> chained_loops(const Graph& graph) {
  std::set<DimId> dims;
  for (const Node& node : graph.nodes)
    if (const auto* loop = std::get_if<LoopOp>(&node.op); loop && !turns_are_free(graph, *loop)) dims.insert(loop->dim);
  return dims;
}

/// Dims of what is stored or named, by how it is known to rules.
std::set<DimId> dims_of_stored(const Graph& graph, bool parameters) {
  std::set<DimId> dims;
  for (const Stored& stored : graph.stored)
    if (!parameters || stored.kind == StoredKind::parameter)
      dims.insert(stored.type.dims.begin(), stored.type.dims.end());
  return dims;
}

void add(std::vector<Slot>& to, Slot slot) {
  if (!slot.choices.empty()) to.push_back(std::move(slot));
}

}  // namespace

Choices::Choices(const Graph& model, const Layout& written) : written_(written) {
  for (size_t i = 0; i < written.mesh.axes.size(); ++i) {
    const auto id = static_cast<AxisId>(i);
    if (written.mesh.axes[i].size < 2 || contains(written.replicated, id) || contains(written.replicas.axes, id))
      continue;
    axes_.push_back(written.mesh.axes[i].name);
    ids_.push_back(id);
  }
  for (const Dim& dim : model.dims) dims_.push_back(dim.name);
  if (model.sample_dim) samples_ = model.dim(model.sample_dim).name;
  add_pipelines(model);
  add_dims(model);
  add_savings(model);
}

/// Every list of axes that leaves each rank something of the dim; none where a rule that is written places it, other
/// than that which divides the samples among replicas.
FoundRules Choices::choices_of(const Graph& graph, const std::string& scope, const std::vector<DimId>& dims) const {
  for (const Rule& rule : written_.rules)
    if (!rule.in && !rule.pin && rule.dims == dims && scope == name_of(rule.scope) &&
        rule.span != written_.replicas.rule)
      return {};
  int64_t size = 1;
  std::vector<std::string> names;
  for (const DimId dim : dims) {
    size *= graph.dim(dim).size;
    names.push_back(graph.dim(dim).name);
  }
  FoundRules found;
  std::vector<std::vector<size_t>> lists{{}};
  for (size_t at = 0; at < lists.size(); ++at) {
    const std::vector<size_t> list = lists[at];
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      if (std::ranges::find(list, axis) != list.end()) continue;
      if (list.size() >= most_orders && axis < list.back()) continue;
      std::vector<size_t> longer = list;
      longer.push_back(axis);
      if (longer.size() > most_orders && !std::ranges::is_sorted(longer)) continue;
      int64_t parts = 1;
      for (const size_t one : longer) parts *= written_.mesh.axes[ids_[one]].size;
      if (parts > size) continue;
      FoundRule rule{scope, names, {}};
      for (const size_t one : longer) rule.axes.push_back(axes_[one]);
      found.push_back(std::move(rule));
      lists.push_back(std::move(longer));
    }
  }
  return found;
}

FoundRules Choices::of_samples() const {
  FoundRules found;
  for (const Slot& slot : slots_)
    if (slot.scope.empty() && slot.dims == std::vector{samples_})
      std::ranges::copy_if(slot.choices, std::back_inserter(found),
                           [&](const FoundRule& rule) { return rule.axes.size() == 1 || rule.axes == axes_; });
  return found;
}

void Choices::add_dims(const Graph& graph) {
  const std::set<DimId> chained = chained_loops(graph);
  std::set<DimId> active;
  for (const auto& [name, value] : graph.names)
    active.insert(graph.type(value).dims.begin(), graph.type(value).dims.end());
  std::set<DimId> known = dims_of_stored(graph, false);
  known.insert(active.begin(), active.end());
  for (const RanksDim& ranks : graph.ranks_dims) known.erase(ranks.dim), active.erase(ranks.dim);
  const auto each = [&](const std::set<DimId>& dims, const std::string& scope) {
    for (uint32_t i = 0; i < graph.dims.size(); ++i)
      if (dims.contains({i}) && !chained.contains({i}))
        add(slots_, {scope, {graph.dims[i].name}, choices_of(graph, scope, {DimId{i}})});
  };
  each(known, "");
  // Dims that stand side by side share an axis that the first alone would be too small for.
  std::set<std::pair<DimId, DimId>> beside;
  for (const Stored& stored_tensor : graph.stored)
    for (size_t i = 0; i + 1 < stored_tensor.type.dims.size(); ++i)
      beside.insert({stored_tensor.type.dims[i], stored_tensor.type.dims[i + 1]});
  for (const auto& [first, second] : beside) {
    if (chained.contains(first) || chained.contains(second)) continue;
    FoundRules wide = choices_of(graph, "", {first, second});
    std::erase_if(wide, [&](const FoundRule& rule) {
      int64_t parts = 1;
      for (const std::string& axis : rule.axes)
        for (size_t i = 0; i < axes_.size(); ++i)
          if (axes_[i] == axis) parts *= written_.mesh.axes[ids_[i]].size;
      return graph.dim(first).size % parts == 0 || parts % graph.dim(first).size != 0;
    });
    add(slots_, {"", {graph.dim(first).name, graph.dim(second).name}, std::move(wide)});
  }
  each(active, "activations");
  const std::set<DimId> parameters = dims_of_stored(graph, true);
  each(parameters, "params");
  if (graph.objective && graph.objective->optimizer != "sgd") each(parameters, "optimizer");
}

/// Turns of a loop of the model itself as stages. As many micro-batches as keep them busy, where these divide the
/// batch, of replicas that train apart the part of each.
void Choices::add_pipelines(const Graph& graph) {
  if (written_.pipeline || written_.accumulate > 1 || !graph.sample_dim || !graph.objective) return;
  const int64_t batch = graph.dim(graph.sample_dim).size / written_.replicas.count;
  for (const NodeId id : graph.body(graph.root()).nodes) {
    const auto* loop = std::get_if<LoopOp>(&graph.node(id).op);
    if (!loop || turns_are_free(graph, *loop)) continue;
    Slot slot{"", {graph.dim(loop->dim).name}, {}};
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      const int64_t stages = written_.mesh.axes[ids_[axis]].size;
      for (const int64_t times : {2, 4, 8}) {
        if (stages > graph.dim(loop->dim).size || batch % (times * stages) != 0) continue;
        slot.choices.push_back({"",
                                slot.dims,
                                {axes_[axis]},
                                {},
                                {{"microbatches", fmt::format("{}", times * stages)}, {"cut", "\"auto\""}}});
      }
    }
    add(slots_, std::move(slot));
  }
}

void Choices::add_savings(const Graph& graph) {
  const std::set<DimId> chained = chained_loops(graph);
  for (const DimId dim : chained)
    if (!written_.pipeline && !written_.remat.loops.contains(dim))
      add(savings_, {"", {graph.dim(dim).name}, {{"", {graph.dim(dim).name}, {}, {}, {{"remat", "\"layer\""}}}}});
  for (const DimId dim : dims_of_stored(graph, true))
    if (!chained.contains(dim)) add(savings_, {"grads", {graph.dim(dim).name}, choices_of(graph, "grads", {dim})});
  if (!graph.sample_dim || !graph.objective || written_.accumulate > 1 || written_.pipeline) return;
  const Dim& batch = graph.dim(graph.sample_dim);
  for (const Slot& slot : slots_) {
    if (!slot.scope.empty() || slot.dims != std::vector{batch.name}) continue;
    Slot cut{"", slot.dims, {}};
    FoundRules targets = slot.choices;
    targets.push_back({"", slot.dims, {}});
    for (const FoundRule& target : targets)
      for (const int64_t parts : {2, 4, 8, 16}) {
        if (batch.size / written_.replicas.count % parts != 0) continue;
        cut.choices.push_back(target);
        cut.choices.back().attributes = {{"accumulate", fmt::format("{}", parts)}};
      }
    add(savings_, std::move(cut));
  }
}

FoundRules Choices::in_order(FoundRules rules) const {
  const auto place = [&](const FoundRule& rule) {
    return std::pair(rank_of(rule.scope), std::ranges::find(dims_, rule.dims.front()) - dims_.begin());
  };
  std::ranges::stable_sort(rules, {}, place);
  return rules;
}

FoundRules Choices::without(const FoundRules& rules, const Slot& slot) const {
  FoundRules left = rules;
  std::erase_if(left, [&](const FoundRule& rule) { return rule.scope == slot.scope && rule.dims == slot.dims; });
  return left;
}

std::vector<FoundRules> Choices::with(const FoundRules& rules, const FoundRule& rule) const {
  FoundRules others = rules;
  std::erase_if(others, [&](const FoundRule& one) { return one.same_place(rule); });
  FoundRules plain = others;
  plain.push_back(rule);
  std::vector<FoundRules> ways{in_order(std::move(plain))};
  std::vector<std::string> dims;  // that want one of the axes too
  for (const FoundRule& one : others)
    if (share(one.axes, rule.axes) && one.scope.empty()) dims.insert(dims.end(), one.dims.begin(), one.dims.end());
  for (const Rule& one : written_.rules)
    for (size_t i = 0; i < ids_.size(); ++i)
      if (one.scope == RuleScope::general && contains(one.axes, ids_[i]) && share(rule.axes, {axes_[i]}))
        for (const DimId dim : one.dims) dims.push_back(dims_[dim.index]);
  std::erase_if(dims, [&](const std::string& dim) { return share(rule.dims, {dim}); });
  if (dims.empty()) return ways;
  FoundRules off = others;
  off.push_back(rule);
  off.back().unless = dims;
  ways.push_back(in_order(std::move(off)));
  std::erase_if(others, [&](const FoundRule& one) { return share(one.axes, rule.axes); });
  others.push_back(rule);
  ways.push_back(in_order(std::move(others)));
  return ways;
}

double Choices::count() const {
  double all = 1;
  for (const Slot& slot : slots_) all *= static_cast<double>(slot.choices.size() + 1);
  return all;
}

}  // namespace mesh
