// place.cpp: one walk over a graph, which places its values op by op.
#include "codegen/layout/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/placer.h"

namespace mesh {

namespace {

ShardedGraph unplaced(const LayoutFacts& facts) {
  ShardedGraph out;
  out.graph = facts.graph;
  out.layout = facts.layout;
  out.machine = facts.machine;
  out.divided = facts.divided;
  out.first_added = facts.graph.nodes.size();
  return out;
}

}  // namespace

Placer::Placer(LayoutFacts& facts, const Decisions& decisions, const EarlierChoices& earlier, bool tells)
    : out_(unplaced(facts)),
      graph_(out_.graph),
      facts_(facts),
      of_graph_(*facts.of_graph),
      layout_(facts.layout),
      declared_(facts.declared),
      stages_(facts.stages),
      divided_(facts.divided),
      decisions_(decisions),
      earlier_(earlier),
      tells_(tells),
      choices_(graph_.nodes.size()),
      planner_(*of_graph_.planner),
      free_(graph_.values.size()),
      rebuilt_(graph_.bodies.size()) {
  out_.placements.resize(graph_.values.size());
  out_.provenance.resize(graph_.values.size());
}

ShardedGraph Placer::run() {
  planner_.count(static_cast<int64_t>(graph_.nodes.size()));
  find_inner_values();
  body(graph_.root());
  const auto complete = [&](ValueId value, bool whole, const std::string& need) {
    consumer_ = {};
    if (is_free(value)) return materialise(value, Placement::whole(graph_.type(value).dims.size()));
    value = home(value);
    Placement to = whole ? Placement::whole(graph_.type(value).dims.size()) : placement(value);
    to.partial.clear();
    to.at.clear();
    return bring(value, to, need);
  };
  for (Metric& metric : graph_.metrics)
    metric.value =
        complete(metric.value, true, fmt::format("{} `{}`", metric.watched() ? "watching" : "metric", metric.name));
  for (Wanted& wanted : graph_.wanted)
    wanted.value = complete(wanted.value, false, fmt::format("whoever fetches `{}`", wanted.name));
  for (Output& output : graph_.outputs) {
    if (output.stored) continue;
    consumer_ = {};
    output.value = bring(output.value, declared_.of(output), fmt::format("output `{}`", output.name));
  }
  for (auto& [name, value] : graph_.names) value = home(value);
  if (graph_.objective) graph_.objective->loss = home(graph_.objective->loss);
  for (size_t b = 0; b < rebuilt_.size(); ++b) graph_.bodies[b].nodes = rebuilt_[b];
  return std::move(out_);
}

void Placer::body(BodyId id) {
  const std::vector<NodeId> nodes = graph_.body(id).nodes;
  for (NodeId n : nodes) {
    consumer_ = n;
    const Op& op = graph_.node(n).op;
    if (std::holds_alternative<ReadOp>(op)) read(n);
    else if (std::holds_alternative<UpdateOp>(op)) update(n);
    else if (std::holds_alternative<LoopOp>(op)) loop(n);
    else if (!std::holds_alternative<UntilOp>(op)) node(n);  // that one at the end of the turn: loop()
  }
}

void Placer::read(NodeId id) {
  const Stored& stored = graph_.stored[std::get<ReadOp>(graph_.node(id).op).stored.index];
  set_placement(stored.value, declared_.of(stored), "stored");
  emit(id);
}

void Placer::update(NodeId id) {
  const Stored& stored = graph_.stored[std::get<UpdateOp>(graph_.node(id).op).stored.index];
  const ValueId value = graph_.node(id).inputs[0];
  // By name: the value may list the tensor's dims in another order.
  const std::vector<DimId>& dims = graph_.type(value).dims;
  const Placement& kept = placement(stored.value);
  Placement to = Placement::whole(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    to.dims[i] =
        kept.dims[std::find(stored.type.dims.begin(), stored.type.dims.end(), dims[i]) - stored.type.dims.begin()];
  to.at = kept.at;
  const ValueId brought = bring(value, to, fmt::format("the update of `{}`", stored.path));
  graph_.node(id).inputs[0] = brought;
  emit(id);
}

/// Places entering + x of a carry that only adds up; another node: false. The sum lies as x does, partial or not. A
/// gradient that the rules split is so already within the turn: whole it would need the memory that they save.
bool Placer::place_adding_up(NodeId id) {
  if (graph_.node(id).inputs.size() != 2 || !adding_up_.count(graph_.node(id).inputs[0])) return false;
  const Node node = graph_.node(id);
  const ValueId entering = node.inputs[0];
  ValueId x = node.inputs[1];
  x = is_free(x) ? materialise(x, Placement::whole(graph_.type(x).dims.size())) : home(x);
  Placement turn = placement(x);
  std::erase_if(turn.partial, [](const Partial& p) { return p.reduce != Reduce::sum; });
  std::erase_if(turn.at, [](const Where& where) { return where.owner && !where.varying; });  // the next has another
  if (declared_.parameter_of_gradient(x)) turn = target(declared_.of(x), turn);
  Placement lies = turn;
  const DimPlacement* own = own_turns(node.body);
  if (own) {  // each adds up what its own turns make
    lies = without_axes(turn, own->axes);
    const Where* where = turn.where(own->axes.front());
    if (!where || !where->varying) turn = lies;  // made outside of the loop
    for (const AxisId axis : own->axes) lies.partial.push_back({axis, Reduce::sum});
    std::ranges::sort(lies.partial);
    // Of a pipeline's loop that is not all stages' only those have terms that have turns.
    if (const auto& loop = std::get<LoopOp>(graph_.node(graph_.body(node.body).owner).op); stages_.is_divided(loop))
      for (const Where& some : stages_.with_turns(loop)) lies.at.push_back(some);
    std::ranges::sort(lies.at);
  }
  x = bring(x, turn, describe(node));
  adding_up_[entering] = x;
  // The carry's dims may be listed in another order than x's, which may lack some: these are whole.
  const std::vector<DimId>&from = graph_.type(x).dims, &to = graph_.type(entering).dims;
  Placement carried{SharedList<DimPlacement>(to.size()), lies.partial, lies.at};
  for (size_t i = 0; i < to.size(); ++i)
    if (const auto at = std::ranges::find(from, to[i]); at != from.end())
      carried.dims[i] = lies.dims[at - from.begin()];
  set_placement(entering, carried, "adds up turn by turn");
  set_placement(node.results[0], carried, "adds up turn by turn");
  std::map<AxisId, Contraction> because;
  if (const auto found = partial_because_.find(x); found != partial_because_.end()) because = found->second;
  if (own && tells_) {
    const DimId turns = std::get<LoopOp>(graph_.node(graph_.body(node.body).owner).op).dim;
    for (const AxisId axis : own->axes)
      because.insert_or_assign(axis, Contraction{turns, "`repeat " + graph_.dim(turns).name + "`", Reduce::sum});
  }
  if (!because.empty()) partial_because_[node.results[0]] = partial_because_[entering] = because;
  graph_.node(id).inputs[1] = x;
  emit(id);
  return true;
}

/// In the update a gradient lies as the optimizer's state does: completed once, for clipping and for every use.
void Placer::complete_gradients(NodeId id) {
  for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
    const ValueId gradient = graph_.node(id).inputs[i];
    const std::string* path = declared_.parameter_of_gradient(gradient);
    if (!path) continue;
    const Stored* kept = nullptr;
    for (const Stored& stored : graph_.stored)
      if (stored.path == *path || (stored.parameter && graph_.stored[stored.parameter.index].path == *path &&
                                   stored.type.dims.size() == graph_.type(gradient).dims.size()))
        kept = &stored;
    if (kept == nullptr) internal_error(fmt::format("there is no parameter `{}`", *path));
    const std::vector<DimId>& dims = graph_.type(gradient).dims;
    const Placement stored = declared_.of(*kept);
    Placement to = Placement::whole(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      to.dims[d] =
          stored.dims[std::find(kept->type.dims.begin(), kept->type.dims.end(), dims[d]) - kept->type.dims.begin()];
    to.at = stored.at;
    const ValueId there = bring(gradient, to, fmt::format("the update of `{}`", *path));
    graph_.node(id).inputs[i] = there;
  }
}

void Placer::node(NodeId id) {
  if (place_adding_up(id)) return;
  // Positions, literals and what is computed from them alone are made wherever they are needed.
  const std::vector<ValueId>& inputs = graph_.node(id).inputs;
  if (graph_.node(id).results.size() == 1 &&
      std::all_of(inputs.begin(), inputs.end(), [&](ValueId v) { return is_free(v); })) {
    for (ValueId result : graph_.node(id).results) free_[result.index] = true;
    return;
  }
  if (graph_.node(id).part == Part::update) complete_gradients(id);
  choices_[id.index] = of_graph_.place_of(id) < earlier_.until ? earlier_.by_node[id.index] : choose(id);
  settle(choices_[id.index], id);
}

Choice Placer::choose(NodeId id) {
  const Node& node = graph_.node(id);
  OpContext op{{}, graph_, layout_.mesh, node, of_graph_.factors(id), of_graph_.margins};
  op.must_lie = must_lie(id);
  op.stretches = decisions_.stretches && of_graph_.may_stretch(id);
  for (ValueId input : node.inputs)
    op.operands.push_back(is_free(input) ? std::nullopt : std::optional(placement(home(input))));
  for (ValueId result : node.results) {
    op.bound.push_back(bound(result));
    op.declared.push_back(inner_[result.index] ? facts_.declared_axes(result) : op.bound.back());
    op.summed.push_back(summed_[result.index]);
  }
  op.in_ring = facts_.ruled_rings(id);
  Choice best = cheapest(op, of_graph_.strategies(op, id));
  const bool open = decisions_.splits_any && !decisions_.moves_only.contains(id);
  for (bool better = open && best.operands > 0; better;) {
    const auto others = price(op, neighbours(op, best.taken->strategy), facts_.machine, planner_);
    Choice other = cheapest(op, std::make_shared<const PricedStrategies>(others));
    better = other.seconds < best.seconds * (1 - 1e-9);
    if (better) best = std::move(other);
  }
  return best;
}

Choice Placer::cheapest(const OpContext& op, std::shared_ptr<const PricedStrategies> of) {
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> moving(op.operands.size());
  for (size_t i = 0; i < op.operands.size(); ++i)
    for (const Placement& required : of->needs[i])
      moving[i].push_back(op.operands[i] ? seconds_to_parts(op.node.inputs[i], required) : 0);
  planner_.count(static_cast<int64_t>(of->all.size()) / 8);
  Choice best{of, nullptr, never, never};
  double least = never;  // of what it is decided that the op shall not move
  const auto decided = decisions_.moves_only.find(consumer_);
  for (const PricedStrategy& one : of->all) {
    double operands = 0, unwanted = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const double seconds = moving[i][one.needs[i]];
      operands += seconds;
      if (decided != decisions_.moves_only.end() && decided->second != static_cast<int>(i)) unwanted += seconds;
    }
    const double all_seconds = operands + one.results + one.work + one.waiting;
    if (decided != decisions_.moves_only.end() && decided->second != Decisions::nothing) unwanted += one.results;
    if (unwanted > least * (1 + 1e-9)) continue;
    if (unwanted < least * (1 - 1e-9) || all_seconds < best.seconds * (1 - 1e-9)) {
      best.taken = &one;
      best.seconds = all_seconds;
      best.operands = operands + one.waiting;
    }
    least = std::min(least, unwanted);
  }
  if (best.seconds == never && !of->all.empty()) internal_error("no strategy can split " + op_text(graph_, op.node.op));
  return best;
}

/// Until all parts are where they are needed or set out from, where they go round.
double Placer::seconds_to_parts(ValueId value, const Placement& to) {
  return to.circulates() ? seconds(value, to.without_circulation()) : seconds(value, to);
}

/// In its part of the step, which is what counts: what is kept for a later part is read there as well.
void Placer::find_inner_values() {
  inner_.assign(graph_.values.size(), false);
  summed_.assign(graph_.values.size(), false);
  const bool any = decisions_.frees_inner || decisions_.frees_neighbours || !decisions_.moves_only.empty();
  if (!any) return;
  std::vector<int> readers(graph_.values.size());
  const auto count = [&](ValueId& value) { ++readers[value.index]; };
  for_each_caller(graph_, count);
  for (const Body& body : graph_.bodies)
    for (NodeId id : body.nodes) {
      const Node& reader = graph_.node(id);
      if (const LoopOp* loop = std::get_if<LoopOp>(&reader.op))
        for (const auto& carry : loop->carries) ++readers[carry.leaving.index];
      for (ValueId input : reader.inputs)
        if (together(reader.part, graph_.node(graph_.value(input).producer).part)) ++readers[input.index];
    }
  for (const Body& body : graph_.bodies)
    for (NodeId id : body.nodes) {
      const Node& reader = graph_.node(id);
      const bool elementwise = is_elementwise(reader.op);
      const bool beside = decisions_.frees_neighbours && of_graph_.reads_beside(id);
      if (!elementwise && !beside && !is_rename(reader.op)) continue;
      for (ValueId input : reader.inputs) {
        const NodeId producer = graph_.value(input).producer;
        const Node& made = graph_.node(producer);
        const bool within = readers[input.index] == 1 && together(made.part, reader.part) && made.body == reader.body &&
                            !std::holds_alternative<LoopOp>(made.op) && declared_.may_lie_otherwise(input);
        const auto decided = decisions_.moves_only.find(producer);
        const bool stays = decided != decisions_.moves_only.end() && decided->second == Decisions::nothing;
        summed_[input.index] =
            within && (stays || std::ranges::any_of(made.inputs, [&](ValueId v) { return summed_[v.index]; }));
        inner_[input.index] = within && ((elementwise && decisions_.frees_inner) || beside || summed_[input.index]);
      }
    }
}

/// What binds a value: the rules, and in the dims that they leave open what was decided before.
DeclaredAxes Placer::bound(ValueId id) const {
  const auto decided = decisions_.lies.find(id);
  const bool open = (id.index < inner_.size() && inner_[id.index]) ||
                    (decided != decisions_.lies.end() && declared_.may_lie_otherwise(id));
  DeclaredAxes axes = open ? DeclaredAxes(graph_.type(id).dims.size()) : facts_.declared_axes(id);
  if (decided == decisions_.lies.end()) return axes;
  std::vector<AxisId> used;
  for (const Where& where : varying_in(graph_, divided_, graph_.value(id).body)) used.push_back(where.axis);
  for (const auto& ruled : axes)
    if (ruled) used.insert(used.end(), ruled->axes.begin(), ruled->axes.end());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i]) continue;
    axes[i] = decided->second.dims[i];
    remove_axes(*axes[i], used);
  }
  return axes;
}

void Placer::settle(const Choice& choice, NodeId id) {
  const PricedStrategy& taken = *choice.taken;
  const std::string what = tells_ ? describe(graph_.node(id)) : "";
  const std::vector<ValueId> results = graph_.node(id).results;
  if (tells_)
    for (size_t r = 0; r < results.size(); ++r)
      if (taken.natural[r].is_partial()) tell_partial(id, choice, r, what);
  for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
    const ValueId brought = bring(graph_.node(id).inputs[i], choice.needs(i), what);
    graph_.node(id).inputs[i] = brought;
  }
  emit(id);
  for (size_t r = 0; r < results.size(); ++r) {
    const ValueId result = results[r];
    const Placement &natural = taken.natural[r], &kept = taken.kept[r];
    set_placement(result, natural, what);
    if (kept == natural) continue;
    const bool ruled = kept == target(facts_.declared_axes(result), natural);
    const bool by_region = std::ranges::any_of(graph_.type(result).dims, [&](DimId dim) {
      return std::ranges::count(graph_.ranks_dims, dim, &RanksDim::dim) > 0;
    });
    const char* rule = by_region ? "the manual region" : "the layout's rule for it";
    const ValueId moved = bring(result, kept, ruled ? rule : "what reads it later");
    home_[result] = moved;
    unmoved_[moved] = result;
    if (graph_.value(moved).name.empty()) graph_.value(moved).take_names(graph_.value(result));
    if (graph_.value(moved).label.empty()) graph_.value(moved).label = graph_.value(result).label;
  }
}

/// Why result `r` is partial, for those who complete it: what the operands were partial for, and what the op contracts.
void Placer::tell_partial(NodeId id, const Choice& choice, size_t r, const std::string& what) {
  const Node& node = graph_.node(id);
  std::map<AxisId, Contraction> because;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (const auto found = partial_because_.find(home(node.inputs[i])); found != partial_because_.end())
      for (const Partial& partial : choice.needs(i).partial)
        if (const auto cause = found->second.find(partial.axis); cause != found->second.end())
          because.insert_or_assign(partial.axis, cause->second);
  const std::vector<Factor>& factors = of_graph_.factors(id);
  for (size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].results[r]) continue;
    DimId dim;
    for (DimId d : factors[f].operands)
      if (d) dim = d;
    for (AxisId axis : choice.taken->strategy.factor_axes[f])
      because.insert_or_assign(axis, Contraction{dim, what, factors[f].reduce});
  }
  partial_because_[node.results[r]] = because;
}

ValueId Placer::home(ValueId id) const {
  const auto found = home_.find(id);
  return found == home_.end() ? id : found->second;
}

void Placer::set_placement(ValueId id, Placement placement, std::string provenance) {
  if (out_.placements.size() < graph_.values.size()) {
    out_.placements.resize(graph_.values.size());
    out_.provenance.resize(graph_.values.size());
  }
  out_.placements[id.index] = std::move(placement);
  out_.provenance[id.index] = std::move(provenance);
}

std::string Placer::describe(const Node& node) const {
  std::string name;
  if (!node.results.empty()) {
    const Value& value = graph_.value(node.results[0]);
    // As a label only the gradient of a value of the spec says something.
    const bool gradient = value.label.starts_with("d_") && graph_.names.contains(value.label.substr(2));
    name = value.name.empty() && gradient ? value.label : value.name;
  }
  return name.empty() ? fmt::format("`{}`", op_text(graph_, node.op))
                      : fmt::format("`{}` of `{}`", op_text(graph_, node.op), name);
}

ShardedGraph place_once(std::shared_ptr<GraphFacts> graph, const Layout& layout) {
  LayoutFacts facts(std::move(graph), layout);
  return Placer(facts, {}, {}, false).run();
}

}  // namespace mesh
