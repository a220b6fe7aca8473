#include "codegen/gradient/sample_sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"

namespace mesh {
namespace {

SampleKind kind_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::sum: return SampleKind::sum;
    case Reduce::max: return SampleKind::max;
    default: return SampleKind::min;
  }
}

/// Whether the op does more with a dim that it names than to add up over it, to have it or to call it otherwise.
bool works_along(Op op, const std::vector<DimId>& names) {
  const auto is_name = [&](DimId dim) { return std::ranges::count(names, dim) > 0; };
  if (const ScatterOp* scatter = std::get_if<ScatterOp>(&op)) return is_name(scatter->dim);
  if (!definition(op).works_along_dims) return false;
  if (RenameOp* rename = std::get_if<RenameOp>(&op))
    for (size_t i = 0; i < rename->from.size(); ++i)
      if (is_name(rename->from[i]) != is_name(rename->to[i])) return true;
  if (const auto chunks = regrouping(op); chunks && is_name(chunks->merged) && is_name(chunks->parts.front()))
    return false;
  return !is_rename(op) && std::ranges::any_of(names, [&](DimId name) { return names_dim(op, name); });
}

/// `where`: linear in what it chooses from, together, while every turn has the same condition. Ranks complete sums
/// before it.
bool chooses(const Node& node) { return map_function(node.op) == MapFunction::where; }

/// Whether it makes one dim of several.
bool merges(const Op& op) {
  const auto group = regrouping(op);
  return group && !group->splits;
}

bool incomplete(SampleKind kind) {
  return kind == SampleKind::sum || kind == SampleKind::max || kind == SampleKind::min;
}

/// Whether what has one of the names is of single samples, or of their chunks, wherever it stands.
bool are_plain(const Graph& graph, DimId samples, const std::set<DimId>& names) {
  const auto count = [&](const std::vector<DimId>& dims) {
    return std::ranges::count_if(dims, [&](DimId dim) { return names.contains(dim); });
  };
  const auto is_other = [&](DimId dim) { return dim != samples && names.contains(dim); };
  const auto apart = [&](const Value& value) { return count(value.type.dims) <= 1; };
  bool plain = std::ranges::all_of(graph.values, apart);
  for (const Stored& stored : graph.stored) plain = plain && std::ranges::none_of(stored.type.dims, is_other);
  return plain;
}

/// All names that renames give, and, of whole parts, chunks and what samples are made one dim with, but for those
/// that are not plain beside the others.
std::set<DimId> all_names(const Graph& graph, DimId samples, int64_t parts) {
  std::set<DimId> names{samples}, refused;
  const auto add = [&](DimId name) {
    if (refused.contains(name) || !names.insert(name).second) return false;
    if (are_plain(graph, samples, names)) return true;
    names.erase(name);
    refused.insert(name);
    return false;
  };
  for (bool more = true; more;) {
    more = false;
    for (const Node& node : graph.nodes) {
      if (const RenameOp* rename = std::get_if<RenameOp>(&node.op))
        for (size_t i = 0; i < rename->from.size(); ++i)
          if (names.contains(rename->from[i])) more = add(rename->to[i]) || more;
      const auto group = regrouping(node.op);
      if (!group || graph.dim(group->parts.front()).size % parts != 0) continue;
      if (names.contains(group->merged)) more = add(group->parts.front()) || more;
      if (!group->splits && names.contains(group->parts.front())) more = add(group->merged) || more;
    }
  }
  return names;
}

}  // namespace

std::vector<DimId> names_of_samples(const Graph& graph, DimId samples, int64_t parts) {
  std::vector<DimId> all{samples};
  std::ranges::copy_if(all_names(graph, samples, parts), std::back_inserter(all),
                       [&](DimId name) { return name != samples; });
  return all;
}

std::vector<DimId> names_of_samples(const Graph& graph, DimId samples) {
  return names_of_samples(graph, samples, graph.dim(samples).size);
}

SampleSums::SampleSums(const Graph& graph, const std::vector<DimId>& names)
    : graph_(graph),
      names_(names),
      kinds_(graph.values.size(), SampleKind::whole),
      one_part_(graph.micro_batches.turns && graph.dim(graph.micro_batches.turns).size == 1) {
  for (uint32_t i = 0; i < graph.values.size(); ++i)
    if (has_samples({i})) kinds_[i] = SampleKind::sliced;
  const std::set<NodeId> also = one_part_ ? between() : std::set<NodeId>{};
  for (NodeId id : graph.body(graph.root()).nodes) {
    const Node& at = graph.node(id);
    const ReadOp* read = std::get_if<ReadOp>(&at.op);
    bool trained = read && graph.stored[read->stored.index].kind != StoredKind::input;
    for (ValueId value : reads(id)) trained = trained || is_trained(value);
    if (trained) trained_.insert(at.results.begin(), at.results.end());
    if (read || (!touches(id) && !also.contains(id))) continue;
    inside_.push_back(id);
    inside_set_.insert(id);
    node(id);
    for (ValueId result : at.results) {
      if (!incomplete(kinds_[result.index])) continue;
      adds_up_[result] = kinds_[result.index];
      kinds_[result.index] = SampleKind::whole;  // for later nodes of the root: complete after the loop
    }
  }
}

/// Root nodes that make something for those of samples of what those give.
std::set<NodeId> SampleSums::between() const {
  const std::vector<NodeId>& nodes = graph_.body(graph_.root()).nodes;
  std::set<NodeId> behind, found;
  std::set<ValueId> needed;
  for (const NodeId id : nodes) {
    const auto is_behind = [&](ValueId value) { return behind.contains(graph_.value(value).producer); };
    if (touches(id) || std::ranges::any_of(reads(id), is_behind)) behind.insert(id);
  }
  for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
    const bool leads = std::ranges::any_of(graph_.node(*id).results, [&](ValueId v) { return needed.contains(v); });
    if (!touches(*id) && !leads) continue;
    if (!touches(*id) && behind.contains(*id)) found.insert(*id);
    for (const ValueId value : reads(*id)) needed.insert(value);
  }
  return found;
}

bool SampleSums::is_name(DimId dim) const { return std::ranges::count(names_, dim) > 0; }

bool SampleSums::has_samples(ValueId id) const {
  return std::ranges::any_of(graph_.type(id).dims, [&](DimId dim) { return is_name(dim); });
}

SampleKind SampleSums::adds_up(ValueId id) const {
  const auto found = adds_up_.find(id);
  return found == adds_up_.end() ? SampleKind::whole : found->second;
}

std::vector<ValueId> SampleSums::reads(NodeId id) const {
  std::vector<ValueId> values = graph_.node(id).inputs;
  const auto collect = [&](const auto& self, const LoopOp& loop) -> void {
    const auto use = [&](ValueId v) {
      if (graph_.value(v).body == graph_.root()) values.push_back(v);
    };
    for (NodeId inner : graph_.body(loop.body).nodes) {
      for (ValueId input : graph_.node(inner).inputs) use(input);
      if (const LoopOp* nested = std::get_if<LoopOp>(&graph_.node(inner).op)) self(self, *nested);
    }
    for (const auto& carry : loop.carries) use(carry.leaving);
    for (const auto& gathered : loop.collects) use(gathered.turn);
  };
  if (const LoopOp* loop = std::get_if<LoopOp>(&graph_.node(id).op)) collect(collect, *loop);
  return values;
}

bool SampleSums::touches(NodeId id) const {
  const Node& at = graph_.node(id);
  const auto sliced = [&](ValueId v) { return has_samples(v); };
  if (std::ranges::any_of(at.inputs, sliced) || std::ranges::any_of(at.results, sliced)) return true;
  const LoopOp* loop = std::get_if<LoopOp>(&at.op);
  return loop && std::ranges::any_of(graph_.body(loop->body).nodes, [&](NodeId inner) { return touches(inner); });
}

void SampleSums::node(NodeId id) {
  if (const LoopOp* nested = std::get_if<LoopOp>(&graph_.node(id).op)) loop(*nested, id);
  else op(id);
}

bool SampleSums::is_zero(ValueId id) const { return literal_number(graph_, id) == 0.0; }

void SampleSums::loop(const LoopOp& loop, NodeId id) {
  for (const auto& slice : loop.slices) kinds_[slice.turn.index] = kinds_[slice.stacked.index];
  for (const auto& carry : loop.carries)
    if (!has_samples(carry.entering))
      kinds_[carry.entering.index] = is_zero(carry.initial) ? SampleKind::zero : kinds_[carry.initial.index];
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId inner : graph_.body(loop.body).nodes) node(inner);
    if (coupled_) return;
    for (const auto& carry : loop.carries) {
      SampleKind& entering = kinds_[carry.entering.index];
      const SampleKind leaving = kinds_[carry.leaving.index];
      if (entering == leaving || leaving == SampleKind::zero) continue;
      if (entering == SampleKind::whole && one_part_) continue;
      const bool mixes = entering != SampleKind::zero;
      if (mixes) couple(id, "a carry of the loop mixes a sum over samples with what is not one");
      if (coupled_) return;
      entering = mixes ? SampleKind::whole : leaving;
      changed = true;
    }
  }
  for (const auto& carry : loop.carries) kinds_[carry.result.index] = kinds_[carry.entering.index];
  for (const auto& gathered : loop.collects) kinds_[gathered.stacked.index] = kinds_[gathered.turn.index];
}

void SampleSums::op(NodeId id) {
  const Node& at = graph_.node(id);
  needs_all_ = false;
  if (std::holds_alternative<UpdateOp>(at.op)) couple(id, "it keeps a value of every sample");
  if (const auto chunks = regrouping(at.op); chunks && is_name(chunks->merged) && graph_.micro_batches.turns) {
    const int64_t count = graph_.dim(chunks->parts.front()).size, parts = graph_.dim(graph_.micro_batches.turns).size;
    if (count % parts != 0)
      couple(id, fmt::format("{} parts do not have equally many whole ones of {} chunks", parts, count), false,
             fmt::format("take so many parts that they divide the {} chunks", count));
  }
  if (works_along(at.op, names_) && merges(at.op)) {
    couple_merged(id, *regrouping(at.op));
  } else if (works_along(at.op, names_)) {
    couple(id, "it needs all samples at once");
  }
  for (size_t r = 0; r < at.results.size() && !coupled_; ++r) {
    if (const auto kind = reduced(id, r)) kinds_[at.results[r].index] = *kind;
    else if (has_samples(at.results[r])) kinds_[at.results[r].index] = SampleKind::sliced;
    else kinds_[at.results[r].index] = passed_on(id);
    if (needs_all_ && !has_samples(at.results[r])) kinds_[at.results[r].index] = SampleKind::whole;
  }
}

/// Of what makes one dim of samples and others that is no name of theirs: why not.
void SampleSums::couple_merged(NodeId id, const Regrouping& group) {
  const std::string &samples = graph_.dim(names_[0]).name, &merged = graph_.dim(group.merged).name;
  for (const Stored& stored : graph_.stored) {
    if (!is_name(group.parts.front()) || !has(stored.type.dims, group.merged)) continue;
    const std::string cure =
        stored.kind == StoredKind::input
            ? fmt::format("give it the dims that `{}` is made of, and merge them where it is read", merged)
            : fmt::format("give it those dims that `{}` is made of which one sample has", merged);
    return couple(graph_.value(stored.value).producer,
                  fmt::format("`{}` has a part for every index of `{}`, of which a part of a batch has its own",
                              stored.path, merged),
                  false, cure);
  }
  couple(id,
         fmt::format("it makes one dim of `{}` and others, and a part of a batch has another size of that", samples),
         false,
         is_name(group.parts.front()) ? fmt::format("leave `{}` a dim of its own", samples)
                                      : fmt::format("let `{}` be the first of them, or a dim of its own", samples));
}

/// Whether the factor goes along what is inside the chunks of samples that the op splits off or puts together.
bool SampleSums::is_within_chunks(const Node& node, const Factor& factor) const {
  const auto chunks = regrouping(node.op);
  return chunks && is_name(chunks->merged) && is_name(chunks->parts.front()) && factor.slower >= 0 &&
         (has(factor.operands, chunks->merged) || has(factor.results, chunks->merged));
}

/// How result `r` adds up over samples that operands have and it lacks; nothing where it has them or no operand does.
std::optional<SampleKind> SampleSums::reduced(NodeId id, size_t r) {
  const Node& at = graph_.node(id);
  std::optional<SampleKind> kind;
  for (const Factor& factor : definition(at.op).factors(graph_, at)) {
    if (factor.circulates || factor.other_way || is_within_chunks(at, factor)) continue;  // another one has its dims
    std::vector<DimId> dims = factor.operands;
    dims.insert(dims.end(), factor.results.begin(), factor.results.end());
    if (std::ranges::none_of(dims, [&](DimId d) { return is_name(d); })) continue;
    const bool by_place = factor.band && (factor.band->least || factor.band->most);
    if (!factor.splittable || factor.window || by_place || factor.is_stretched() ||
        std::ranges::any_of(dims, [&](DimId d) { return d && !is_name(d); }))
      couple(id, "it needs all samples at once");
    for (size_t i = 0; i < at.inputs.size(); ++i)
      if (incomplete(kinds_[at.inputs[i].index])) uses_early(id);
    if (!factor.results[r]) kind = kind_of(factor.reduce);
  }
  return kind;
}

/// The kind of a result without samples of operands without samples.
SampleKind SampleSums::passed_on(NodeId id) {
  const Node& at = graph_.node(id);
  const auto open = [&](ValueId v) { return incomplete(kinds_[v.index]); };
  const auto adds = [&](ValueId v) {
    return kinds_[v.index] == SampleKind::sum || kinds_[v.index] == SampleKind::zero || is_zero(v);
  };
  const auto adding_from = [&](size_t first) {
    return std::all_of(at.inputs.begin() + static_cast<std::ptrdiff_t>(first), at.inputs.end(), adds);
  };
  const auto count = std::ranges::count_if(at.inputs, open), adding = std::ranges::count_if(at.inputs, adds);
  bool passes = false;
  switch (definition(at.op).partial(graph_, at)) {
    case PartialRule::completes: passes = chooses(at) && adding_from(1) && !open(at.inputs[0]); break;
    case PartialRule::first: passes = adds(at.inputs[0]) && count <= (open(at.inputs[0]) ? 1 : 0); break;
    case PartialRule::each: passes = count <= 1; break;
    case PartialRule::together: passes = adding_from(0); break;
  }
  if (count == 0) return passes && adding > 0 ? SampleKind::zero : SampleKind::whole;
  if (!passes && definition(at.op).partial(graph_, at) == PartialRule::together && count == adding)
    couple(id,
           fmt::format("it adds a sum over samples to a value without `{}` that a loop beside values of samples gives",
                       graph_.dim(names_[0]).name),
           true);
  if (!passes || std::ranges::any_of(at.inputs, [&](ValueId v) { return open(v) && !adds(v); })) uses_early(id);
  return SampleKind::sum;
}

/// In a turn of a loop: what a sum of the root is read by comes after the loop over micro-batches.
void SampleSums::uses_early(NodeId id) {
  const auto& loop = std::get<LoopOp>(graph_.node(graph_.body(graph_.node(id).body).owner).op);
  const std::string &samples = graph_.dim(names_[0]).name, &turns = graph_.dim(loop.dim).name;
  couple(id,
         fmt::format("in a turn of `repeat {}` it uses a sum over all samples of `{}`, of which a part of a batch has "
                     "only its own",
                     turns, samples),
         false,
         fmt::format("compute it of each chunk of the batch alone (`x[{} as chunk * sample]`, as `ghost_batch_norm` "
                     "does), or outside of `repeat {}`, where `-A batch_coupled` allows it",
                     samples, turns));
}

void SampleSums::couple(NodeId id, std::string why, bool beside, std::string cure) {
  needs_all_ = one_part_;
  if (!coupled_ && !one_part_) coupled_ = Coupled{id, std::move(why), beside, std::move(cure)};
}

}  // namespace mesh
