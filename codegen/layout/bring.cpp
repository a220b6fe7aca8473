// bring.cpp: values where they are needed: free ones are computed in place, movements are shared between users and
// pushed through renames and broadcasts to where the value is smallest.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/placer.h"

namespace mesh {

/// What is gathered of a parameter stays from the forward pass to the backward one; where `params` deals it out, which
/// is done to save memory, it is gathered anew. An update gathers for itself.
Placer::Phase Placer::phase_of_copies(ValueId id) const {
  const Node* made = &graph_.node(graph_.value(id).producer);
  while (widens(graph_, *made)) made = &graph_.node(graph_.value(made->inputs[0]).producer);
  const ReadOp* read = std::get_if<ReadOp>(&made->op);
  if (!read || !consumer_ || graph_.stored[read->stored.index].kind != StoredKind::parameter) return 0;
  const Part part = graph_.node(consumer_).part;
  if (part == Part::update) return 2;
  const auto saves_memory = [&](DimId dim) {
    const Rule* rule = declared_.rule(made->results[0], dim);
    return rule && rule->scope == RuleScope::params;
  };
  return part != Part::forward && std::ranges::any_of(graph_.type(made->results[0]).dims, saves_memory) ? 1 : 0;
}

/// Where a value can be had: where it lies, what it was moved to, and, for ops of the same part, where it was made
/// before a rule moved it. Later parts ask for that one only where that is decided: it has to be kept for them.
std::vector<ValueId> Placer::copies_of(ValueId id) const {
  std::vector<ValueId> all{id};
  const auto add = [&](ValueId of) {
    if (const auto found = copies_.find({of, phase_of_copies(of)}); found != copies_.end())
      for (const auto& [placement, copy] : found->second)
        if (std::ranges::find(all, copy) == all.end()) all.push_back(copy);
  };
  add(id);
  const auto made = unmoved_.find(id);
  if (made == unmoved_.end() || !consumer_) return all;
  if (!decisions_.keeps_made &&
      !together(graph_.node(consumer_).part, graph_.node(graph_.value(made->second).producer).part))
    return all;
  all.push_back(made->second);
  add(made->second);
  return all;
}

/// The copy from which it is cheapest to have the value as `to`.
ValueId Placer::nearest(ValueId id, const Placement& to) {
  ValueId best = id;
  double least = std::numeric_limits<double>::infinity();
  // What one stage of a pipeline has brought goes to no other stage for each micro-batch.
  const auto is_of_one_stage = [&](ValueId copy) {
    const AxisId axis = layout_.pipeline.axis;
    return stages_ && graph_.value(copy).body == stages_.body() && placement(copy).where(axis) && !to.where(axis);
  };
  for (const ValueId copy : copies_of(id)) {
    if (placement(copy) == to) return copy;
    if (placement(copy).has_margins()) continue;
    if (copy != id && (placement(copy).circulates() || is_of_one_stage(copy))) continue;
    const auto& path = planner_.plan(graph_.type(id), placement(copy), to);
    if (!path || path->seconds >= least) continue;
    least = path->seconds;
    best = copy;
  }
  return best;
}

/// Outside of a loop nobody has its turn: what a loop's turn needs of there, all ranks that may have a turn need. Where
/// the value lies at some coordinates that have all turns among them, it stays there.
Placement Placer::without_turns_of_others(ValueId id, Placement to) const {
  std::vector<Where> stays;
  std::erase_if(to.at, [&](const Where& where) {
    if (!where.owner) return false;
    NodeId loop = graph_.body(graph_.value(id).body).owner;
    while (loop && std::get<LoopOp>(graph_.node(loop).op).dim != where.owner.dim)
      loop = graph_.body(graph_.node(loop).body).owner;
    const Where* now = loop ? nullptr : placement(id).where(where.axis);
    if (now && has_all_turns(graph_, layout_.mesh, *now, where.owner)) stays.push_back(*now);
    return !loop;
  });
  to.at.insert(to.at.end(), stays.begin(), stays.end());
  std::ranges::sort(to.at);
  return to;
}

ValueId Placer::bring(ValueId id, const Placement& needed, const std::string& need) {
  if (needed.circulates()) return send_round(bring(id, needed.without_circulation(), need), needed, need);
  if (is_free(id)) return materialise(id, needed);
  id = home(id);
  const Placement to = without_turns_of_others(id, needed);
  if (placement(id) == to) return id;
  const ValueId from = nearest(id, to);
  if (placement(from) == to) return from;
  const ValueId viewed = through_view(id, to, need);
  // Margins are filled in last: readers of what lies between them share the movement before that.
  const Placement parts = to.without_margins();
  const bool moves_first = !viewed && parts != to && parts != placement(id);
  const ValueId there = viewed ? viewed : reshard(id, moves_first ? bring(id, parts, need) : from, to, need);
  copies_[{id, phase_of_copies(id)}].emplace(to, there);
  return there;
}

/// For one reader, which does it while it works: nobody else has anything of it, and each turn of its loop does so
/// anew.
ValueId Placer::send_round(ValueId part, const Placement& to, const std::string& need) {
  return resharded(part, part, to, need, graph_.node(consumer_).body);
}

ValueId Placer::repeat_with(ValueId id, const Placement& to, const std::vector<ValueId>& inputs) {
  const Node node = graph_.node(graph_.value(id).producer);
  GraphBuilder build(graph_);
  build.body = graph_.value(id).body;
  build.span = node.span;
  build.scope = node.scope;
  build.call = node.call;
  const ValueId again = build.value(node.op, inputs);
  graph_.value(again).type = graph_.type(id);
  graph_.value(again).take_names(graph_.value(id));
  graph_.value(again).label = graph_.value(id).label;
  set_placement(again, to, out_.provenance[id.index]);
  emit(graph_.value(again).producer);
  return again;
}

ValueId Placer::materialise(ValueId id, const Placement& to) {
  Placement everywhere = to;  // all ranks may compute it
  everywhere.at.clear();
  return materialise_at(id, everywhere);
}

ValueId Placer::materialise_at(ValueId id, const Placement& to) {
  Placement complete = to;
  complete.partial.clear();
  // Computed where it is used: in the consumer's body, so that loops do not read it from memory.
  std::map<Placement, ValueId>& made_so_far = copies_[{id, 0}];
  if (const auto found = made_so_far.find(to); found != made_so_far.end()) return found->second;
  const Node node = graph_.node(graph_.value(id).producer);
  if (std::holds_alternative<LoopOp>(node.op)) return id;  // the turn
  // Free reductions (counts of positions) are computed whole and then cut.
  bool direct = true;
  const bool dealt = std::ranges::any_of(to.dims, [](const DimPlacement& dim) { return bool(dim.deal); });
  for (const Factor& factor : definition(node.op).factors(graph_, node))
    if (!node.inputs.empty() && (!factor.results[0] || !factor.splittable || factor.granule > 1 || factor.slower >= 0 ||
                                 factor.margin || factor.window || factor.is_stretched() || (factor.in_order && dealt)))
      direct = false;
  const Placement whole = Placement::whole(to.dims.size());
  ValueId made;
  if (complete.has_margins()) {
    const ValueId parts = materialise(id, complete.without_margins());
    made = reshard(parts, parts, complete, "its readers");
    set_placement(made, to);
  } else if (direct || complete == whole) {
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(materialise(node.inputs[i], operand_placement(graph_, node, i, complete)));
    made = repeat_with(id, to, inputs);
  } else {
    const ValueId all = materialise(id, whole);
    made = reshard(all, all, complete, "each rank keeps its part");
    set_placement(made, to);
  }
  copies_[{id, 0}].emplace(to, made);
  return made;
}

/// Views, broadcasts and what widens numbers are free: the movement happens before them, where other users may share it
/// and the value is smaller. What their operand must be for that; nothing where the movement cannot happen there.
std::optional<Placement> Placer::before_view(ValueId id, const Placement& to) {
  const Node& node = graph_.node(graph_.value(id).producer);
  if (node.inputs.empty() || (to.has_margins() && !is_rename(node.op))) return {};
  std::optional<Placement> from = mesh::before_view(graph_, layout_.mesh, node, to);
  if (!from && (is_spread(node.op) || widens(graph_, node))) from = operand_placement(graph_, node, 0, to);
  if (!from || is_free(node.inputs[0])) return {};
  const Placement& now = placement(home(node.inputs[0]));
  if (now.partial != placement(id).partial || now.at != placement(id).at) return {};
  from->partial = to.partial;
  from->at = to.at;
  if (!planner_.plan(graph_.type(node.inputs[0]), now, *from)) return {};
  return from;
}

ValueId Placer::through_view(ValueId id, const Placement& to, const std::string& need) {
  const std::optional<Placement> from = before_view(id, to);
  if (!from) return {};
  const Node& view = graph_.node(graph_.value(id).producer);
  if (Value& operand = graph_.value(view.inputs[0]);
      !is_rename(view.op) && operand.name.empty() && operand.label.empty())
    operand.label = graph_.value(id).name.empty() ? graph_.value(id).label : graph_.value(id).name;
  return repeat_with(id, to, {bring(graph_.node(graph_.value(id).producer).inputs[0], *from, need)});
}

/// From `copy`, one of the copies of `id`.
ValueId Placer::reshard(ValueId id, ValueId copy, const Placement& to, const std::string& need) {
  const ValueId there = resharded(id, copy, to, need, graph_.value(id).body);
  for (ValueId at = there; at != copy; at = graph_.node(graph_.value(at).producer).inputs[0])
    copies_[{id, phase_of_copies(id)}].emplace(placement(at), at);
  return there;
}

ValueId Placer::resharded(ValueId id, ValueId copy, const Placement& to, const std::string& need, BodyId body) {
  const auto& path = planner_.plan(graph_.type(id), placement(copy), to);
  if (!path)
    internal_error(fmt::format("{} cannot be brought from {} to {}", value_name(graph_, id),
                               to_string(graph_, layout_.mesh, graph_.type(id), placement(copy)),
                               to_string(graph_, layout_.mesh, graph_.type(id), to)));
  const ReshardPath way = *path;
  ValueId at = copy;
  for (size_t i = 0; i < way.steps.size(); ++i) {
    ReshardStep step = way.steps[i];
    if (tells_) {
      step.reason = reason(step, at, way.placements[i], to, need);
      step.rule = rule_of(step, at);
    }
    GraphBuilder build(graph_);
    build.body = body;
    const Node& user = consumer_ ? graph_.node(consumer_) : graph_.node(graph_.value(id).producer);
    build.span = user.span;
    build.scope = user.scope;
    build.call = user.call;
    const ValueId next = build.value(ReshardOp{static_cast<uint32_t>(out_.steps.size())}, {at});
    out_.steps.push_back(std::move(step));
    graph_.value(next).take_names(graph_.value(id));
    graph_.value(next).label = graph_.value(id).label;
    set_placement(next, way.placements[i], out_.provenance[id.index]);
    if (way.placements[i].is_partial() && partial_because_.count(at)) partial_because_[next] = partial_because_[at];
    emit(graph_.value(next).producer);
    at = next;
  }
  out_.movements.push_back({copy, at, consumer_});
  return at;
}

/// What it costs to have a value as `to`: nothing where such a copy is there already.
double Placer::seconds(ValueId id, const Placement& needed) {
  if (const Placement part = needed.without_circulation(); part != needed)
    return seconds(id, part) + planner_.plan(graph_.type(id), part, needed)->seconds;
  id = home(id);
  const Placement to = without_turns_of_others(id, needed);
  const ValueId from = decisions_.counts_copies ? nearest(id, to) : id;
  if (placement(from) == to) return 0;
  if (!decisions_.counts_copies) {
    const auto& path = planner_.plan(graph_.type(id), placement(id), to);
    return path ? path->seconds : std::numeric_limits<double>::infinity();
  }
  if (const std::optional<Placement> before = before_view(id, to))
    return seconds(graph_.node(graph_.value(id).producer).inputs[0], *before);
  const auto& path = planner_.plan(graph_.type(id), placement(from), to);
  return path ? path->seconds : std::numeric_limits<double>::infinity();
}

/// Each op that left the value partial over axes of the step, with the dims that are split over them.
std::string Placer::completion_reason(const ReshardStep& step, ValueId id, const std::string& need) const {
  struct Cause {
    Contraction contraction;
    std::vector<AxisId> axes;
  };
  std::vector<Cause> causes;
  if (const auto found = partial_because_.find(id); found != partial_because_.end())
    for (const auto& [axis, contraction] : found->second) {
      if (std::ranges::find(step.axes, axis) == step.axes.end()) continue;
      const auto same = std::ranges::find(causes, contraction, &Cause::contraction);
      if (same != causes.end()) same->axes.push_back(axis);
      else causes.push_back({contraction, {axis}});
    }
  if (causes.empty() && !makers(step.kind, step.at)) return fmt::format("needed whole by {}", need);
  std::string text;
  if (const Where* some = makers(step.kind, step.at))
    text = fmt::format("terms of it are made at {}; ", to_string(graph_, layout_.mesh, *some));
  for (size_t i = 0; i < causes.size(); ++i) {
    const Contraction& contraction = causes[i].contraction;
    const auto of_one_op = [&](size_t other) {
      return other < causes.size() && causes[other].contraction.op == contraction.op;
    };
    text += fmt::format("`{}`{} over `{}`", graph_.dim(contraction.dim).name,
                        i > 0 && of_one_op(i - 1) ? "" : " is split", axes_text(layout_.mesh, causes[i].axes));
    text += of_one_op(i + 1) ? " and "
                             : fmt::format(", so {} leaves a partial {} on each rank; ", contraction.op,
                                           meshrt::name_of(contraction.reduce));
  }
  return fmt::format("{}needed by {}", text, need);
}

/// With what memory has to do with it, where no rule of the spec says that the dim goes round.
std::string Placer::ring_reason(const ReshardStep& step, ValueId id, const Placement& after,
                                const std::string& need) const {
  const DimId dim = graph_.type(id).dims[step.from_dim];
  const auto added = std::ranges::find_if(
      layout_.rules, [&](const Rule& rule) { return !rule.because.empty() && has(rule.dims, dim); });
  std::string text =
      fmt::format("`{}` is split over `{}`, and ", graph_.dim(dim).name, axes_text(layout_.mesh, step.axes));
  const int64_t others = layout_.mesh.size(step.axes) - 1;
  const bool all = static_cast<int64_t>(step.meets.size()) == others;
  if (!after.circulates())
    text += all ? "every rank adds to each part as it comes by" : "the ranks that meet a part add to it as it comes by";
  else if (all) text += fmt::format("{} meets all of it, part by part", need);
  else
    text += fmt::format("{} meets {} of the {} other parts: its mask hides those that are farther", need,
                        step.meets.size(), others);
  return added == layout_.rules.end() ? text : fmt::format("{}; {}", text, added->because);
}

std::string Placer::reason(const ReshardStep& step, ValueId id, const Placement& after, const Placement& to,
                           const std::string& need) const {
  const auto dim = [&](int at) { return graph_.dim(graph_.type(id).dims[at]).name; };
  const std::string over = axes_text(layout_.mesh, step.axes);
  const auto is_wanted = [&](int at) { return after.dims[at].axes == to.dims[at].axes; };
  const auto on_the_way = [&] {
    return fmt::format("on the way to {}, as {} needs it", to_string(graph_, layout_.mesh, graph_.type(id), to), need);
  };
  switch (step.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
    case CollectiveKind::reduce_scatter: return completion_reason(step, id, need);
    case CollectiveKind::all_gather:
      if (contains(to.dims[step.from_dim].axes, step.axes[0])) return on_the_way();
      return fmt::format("`{}` is split over `{}`, and {} needs all of it", dim(step.from_dim), over, need);
    case CollectiveKind::all_to_all:
      if (!contains(to.dims[step.to_dim].axes, step.axes[0])) return on_the_way();
      return fmt::format("`{}` is split over `{}`, and {} splits `{}` instead", dim(step.from_dim), over, need,
                         dim(step.to_dim));
    case CollectiveKind::permute: {
      std::string moved;
      for (int i = 0; i < static_cast<int>(after.dims.size()); ++i) {
        const std::vector<AxisId>& now = placement(id).dims[i].axes;
        if (now == after.dims[i].axes) continue;
        if (!is_wanted(i)) return on_the_way();
        moved += fmt::format("{}`{}` over `{}` instead of `{}`", moved.empty() ? "" : " and ", dim(i),
                             axes_text(layout_.mesh, after.dims[i].axes), axes_text(layout_.mesh, now));
      }
      return fmt::format("{} splits {}: each part goes to another rank as it is", need, moved);
    }
    case CollectiveKind::redistribute: {
      std::string now, then;
      for (int i = 0; i < static_cast<int>(after.dims.size()); ++i) {
        const DimPlacement &had = placement(id).dims[i], &has = after.dims[i];
        if (had == has) continue;
        if (has != to.dims[i]) return on_the_way();
        const bool dealt = had.deal || has.deal;
        const auto lies = [&](const DimPlacement& split) {
          const std::string deal = !dealt                  ? ""
                                   : !split.deal           ? " in blocks"
                                   : split.deal.in_order() ? deal_text(split.deal)
                                                           : " dealt" + deal_text(split.deal);
          return split.axes.empty() ? " whole" + deal
                                    : fmt::format(" over `{}`{}", axes_text(layout_.mesh, split.axes), deal);
        };
        now += fmt::format("{}`{}`{}", now.empty() ? "" : " and ", dim(i), lies(had));
        then += fmt::format("{}`{}`{}", then.empty() ? "" : " and ", dim(i), lies(has));
      }
      if (step.axes.empty()) return fmt::format("{} has {} in place of {}", need, then, now);
      return fmt::format("{} has {} in place of {}: each element comes straight from a rank that holds it", need, then,
                         now);
    }
    case CollectiveKind::slice:
      if (step.at.varying) return fmt::format("{} is of the turns that the rank makes", need);
      if (step.to_dim < 0) return fmt::format("{} is at one place of `{}`", need, over);
      if (!contains(to.dims[step.to_dim].axes, step.axes[0])) return on_the_way();
      return fmt::format("{} needs only this rank's part of `{}`", need, dim(step.to_dim));
    case CollectiveKind::halo: {
      const Margin& margin = after.dims[step.from_dim].margin;
      return fmt::format("halo exchange: `{}` is split over `{}`, and each part is read with {} before it and {} after",
                         dim(step.from_dim), over, margin.before, margin.after);
    }
    case CollectiveKind::ring: return ring_reason(step, id, after, need);
    case CollectiveKind::broadcast:
      if (step.at.owner)
        return fmt::format("`{}` is split over `{}`, so one rank has each turn's part, and {} needs it on all",
                           graph_.dim(step.at.owner.dim).name, over, need);
      return fmt::format("it lies at {}, and {} needs it on all", to_string(graph_, layout_.mesh, step.at), need);
    case CollectiveKind::term: return fmt::format("a term of {}, others lie elsewhere on `{}`", need, over);
  }
  return need;
}

/// The rule that brought the axes: of the dim that is gathered or split, else the first one that names them.
Span Placer::rule_of(const ReshardStep& step, ValueId id) const {
  if (step.axes.empty()) return {};
  const auto names = [&](const Rule& rule) {
    return std::find(rule.axes.begin(), rule.axes.end(), step.axes[0]) != rule.axes.end();
  };
  for (int at : {step.from_dim, step.to_dim})
    if (at >= 0)
      for (const Rule& rule : layout_.rules)
        if (names(rule) && rule.dims[rule.part] == graph_.type(id).dims[at]) return rule.span;
  for (const Rule& rule : layout_.rules)
    if (names(rule)) return rule.span;
  return {};
}

}  // namespace mesh
