#include "codegen/layout/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/gradient/recompute_forward.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/cut.h"

namespace mesh {

namespace {

/// The loop over micro-batches that comes last: those before it make sums that it needs.
NodeId main_loop(const Graph& graph) {
  NodeId found;
  for (const NodeId id : graph.body(graph.root()).nodes)
    if (const auto* loop = std::get_if<LoopOp>(&graph.node(id).op); loop && loop->dim == graph.micro_batches.time)
      found = id;
  return found;
}

}  // namespace

Stages::Stages(const Graph& graph, const Layout& layout)
    : graph_(&graph), pipeline_(layout.pipeline), home_(pipeline_.lists.rank_of_stage()) {
  if (!pipeline_ || !graph.micro_batches.time) return;
  layers_ = all_layers(graph, pipeline_);
  if (const NodeId time = main_loop(graph)) body_ = std::get<LoopOp>(graph.node(time).op).body;
  if (body_) find_loops();
  if (std::ranges::none_of(divided_, [](const auto& one) { return one.second.part == Part::forward; })) {
    divided_.clear();
    body_ = {};
  }
  if (body_) place_body();
}

/// The first over each dim in each pass.
void Stages::find_loops() {
  std::set<Divided> known;
  for (const NodeId id : graph_->body(body_).nodes) {
    const auto* loop = std::get_if<LoopOp>(&graph_->node(id).op);
    const auto number = loop ? pipeline_.loop_over(loop->dim) : std::nullopt;
    if (!number) continue;
    Divided one{*number, graph_->node(id).part};
    if (one.part != Part::forward && one.part != Part::recompute && one.part != Part::weight_gradient)
      one.part = Part::input_gradient;
    if (known.insert(one).second) divided_[loop->body] = one;
  }
}

bool Stages::is(const LoopOp& loop, Part part) const {
  const auto found = divided_.find(loop.body);
  return found != divided_.end() && found->second.part == part;
}

bool Stages::recomputes() const {
  return std::ranges::any_of(divided_, [](const auto& one) { return one.second.part == Part::recompute; });
}

bool Stages::stands(size_t loop) const {
  return std::ranges::any_of(divided_, [&](const auto& one) { return one.second.loop == loop; });
}

/// Where the next loop begins, of those that the graph has: the first of them at the first stage.
int32_t Stages::stage_of_gap(size_t gap) const {
  size_t loop = gap;
  while (loop < pipeline_.loops.size() && !stands(loop)) ++loop;
  if (loop == pipeline_.loops.size()) return pipeline_.lists.stages - 1;
  bool is_first = true;
  for (size_t before = 0; before < loop; ++before) is_first = is_first && !stands(before);
  if (is_first) return 0;
  const std::vector<meshrt::IndexRange> turns = turns_of_stages(pipeline_, loop);
  return static_cast<int32_t>(std::ranges::find_if(turns, [](const auto& one) { return one.size() > 0; }) -
                              turns.begin());
}

StageRange Stages::range(const LoopOp& loop) const {
  return {stage_of_gap(number_of(loop)), stage_of_gap(number_of(loop) + 1)};
}

Where Stages::at_stage(int32_t stage) const { return {pipeline_.axis, {home_[static_cast<size_t>(stage)]}, {}}; }

std::vector<Where> Stages::comers(const LoopOp& loop) const {
  const auto [first, last] = range(loop);
  if (first == 0 && last + 1 == pipeline_.lists.stages) return {};
  Where some{pipeline_.axis, {}, {}};
  for (int32_t stage = first; stage <= last; ++stage) some.coordinates.push_back(home_[static_cast<size_t>(stage)]);
  std::ranges::sort(some.coordinates);
  some.coordinates.erase(std::ranges::unique(some.coordinates).begin(), some.coordinates.end());
  if (some.coordinates.size() == pipeline_.lists.ranks.size()) return {};
  return {some};
}

std::vector<Where> Stages::with_turns(const LoopOp& loop) const {
  const std::vector<meshrt::IndexRange> turns = turns_of_stages(pipeline_, number_of(loop));
  std::set<int64_t> some;
  for (size_t stage = 0; stage < turns.size(); ++stage)
    if (turns[stage].size() > 0) some.insert(home_[stage]);
  if (some.size() == pipeline_.lists.ranks.size()) return {};
  return {{pipeline_.axis, {some.begin(), some.end()}, {}}};
}

Where Stages::end(const LoopOp& loop, bool last) const {
  const StageRange through = range(loop);
  return at_stage(last != loop.reverse ? through.last : through.first);
}

bool Stages::adds_up(const LoopOp& loop, const LoopOp::Carry& carry) const {
  return adds_up_apart(*graph_, loop, carry) && literal_number(*graph_, carry.initial) == 0 &&
         !is_read_before_the_end(loop, carry);
}

/// Whether what has been added up is needed turn by turn, or of each micro-batch, and not of all of them together.
bool Stages::is_read_before_the_end(const LoopOp& loop, const LoopOp::Carry& carry) const {
  const auto is_read = [&](BodyId body, ValueId value, const auto& may) {
    return std::ranges::any_of(graph_->body(body).nodes, [&](NodeId id) {
      bool read = false;
      for_each_source(*graph_, graph_->node(id), [&](ValueId source) { read = read || source == value; });
      return read && !may(graph_->node(id));
    });
  };
  const auto is_kept = [](const LoopOp& by, ValueId value) {
    return std::ranges::count(by.collects, value, &LoopOp::Collect::turn) > 0;
  };
  const LoopOp& time = std::get<LoopOp>(graph_->node(graph_->body(body_).owner).op);
  const auto adds_to_all = [&](const Node& node) {
    return is_addition(node.op) && std::ranges::any_of(time.carries, [&](const LoopOp::Carry& all) {
             return all.leaving == node.results[0] && only_adds_up(*graph_, time, all);
           });
  };
  const auto none = [](const Node&) { return false; };
  return is_kept(loop, carry.entering) || is_kept(loop, carry.leaving) || is_read(loop.body, carry.leaving, none) ||
         is_kept(time, carry.result) || is_read(body_, carry.result, adds_to_all);
}

DimPlacement Stages::split_of(const LoopOp& loop) const {
  return {{pipeline_.axis}, pipeline_.loops[number_of(loop)].deal, {}};
}

std::vector<Where> Stages::owners(const LoopOp& loop) const { return varying_turns(loop.dim, split_of(loop)); }

std::optional<int32_t> Stages::stage_of(ValueId value) const {
  if (!body_ || !pipeline_.has_chunks()) return std::nullopt;
  const auto stage_at = [&](StagePlace place) {
    return place.kind == StagePlace::Kind::gap ? std::optional(stage_of_gap(place.gap)) : std::nullopt;
  };
  BodyId at = graph_->value(value).body;
  if (at == body_) return stage_at(place_of(value));
  NodeId around;
  for (; at != body_; at = graph_->node(around).body) {
    if (at == graph_->root() || divided_.contains(at)) return std::nullopt;
    around = graph_->body(at).owner;
  }
  return stage_at(place(around));
}

StagePlace Stages::place(NodeId id) const {
  const auto found = places_.find(id);
  return found == places_.end() ? StagePlace{} : found->second;
}

std::vector<Where> Stages::must_lie(NodeId id) const {
  if (!body_) return {};
  while (id && graph_->node(id).body != body_) {
    const BodyId around = graph_->node(id).body;
    if (around == graph_->root()) return {};
    id = graph_->body(around).owner;
    if (divided_.contains(around)) return owners(std::get<LoopOp>(graph_->node(id).op));
  }
  const StagePlace at = place(id);
  if (at.kind != StagePlace::Kind::gap) return {};
  return {at_stage(stage_of_gap(at.gap))};
}

std::vector<Where> Stages::ever_at(NodeId id) const {
  for (NodeId around = id; body_ && around && graph_->node(around).body != body_;) {
    const BodyId body = graph_->node(around).body;
    if (body == graph_->root()) break;
    around = graph_->body(body).owner;
    if (divided_.contains(body)) return with_turns(std::get<LoopOp>(graph_->node(around).op));
  }
  return must_lie(id);
}

/// `several` stands for a conflict, `each` for what every stage has a part of; unknown yet are nodes that depend on
/// nothing that a stage makes.
StagePlace Stages::place_of(ValueId value) const {
  const NodeId producer = graph_->value(value).producer;
  if (const auto* loop = std::get_if<LoopOp>(&graph_->node(producer).op); loop && is_divided(*loop))
    for (const LoopOp::Carry& carry : loop->carries)
      if (carry.result == value && !adds_up(*loop, carry))
        return StagePlace::at(number_of(*loop) + (loop->reverse ? 0 : 1));
  return place(producer);
}

/// Whether it is an input that has turns, which the stages have among them.
bool Stages::is_dealt(ValueId value) const {
  return graph_->value(value).producer == graph_->body(body_).owner &&
         std::ranges::any_of(layers_, [&](const PipelineLoop& one) { return has(graph_->type(value).dims, one.dim); });
}

std::optional<DimId> Stages::turns_of(ValueId value) const {
  const Dims& dims = graph_->type(value).dims;
  for (const PipelineLoop& one : layers_)
    if (has(dims, one.dim)) return one.dim;
  if (place_of(value).kind != StagePlace::Kind::each) return {};
  const NodeId producer = graph_->value(value).producer;
  const Node& node = graph_->node(producer);
  if (const auto* loop = std::get_if<LoopOp>(&node.op); loop && is_divided(*loop)) return loop->dim;
  std::optional<DimId> turns;
  if (places_.contains(producer))
    for_each_source(*graph_, node, [&](ValueId source) { turns = turns ? turns : turns_of(source); });
  return turns;
}

/// Of what a node depends on; nothing where that is nothing that a stage makes.
std::optional<StagePlace> Stages::joined(const Node& node) const {
  std::optional<StagePlace> all;
  for_each_source(*graph_, node, [&](ValueId value) {
    const NodeId producer = graph_->value(value).producer;
    const auto* loop = std::get_if<LoopOp>(&graph_->node(producer).op);
    if (!places_.contains(producer) && !(loop && is_divided(*loop)) && !is_dealt(value)) return;
    const StagePlace at = place_of(value);
    all = !all || *all == at ? at : StagePlace{StagePlace::Kind::several};
  });
  return all;
}

void Stages::place_body() {
  for (const NodeId id : graph_->body(body_).nodes) {
    const Node& node = graph_->node(id);
    if (const auto* loop = std::get_if<LoopOp>(&node.op); loop && is_divided(*loop)) continue;
    if (const std::optional<StagePlace> at = joined(node)) places_[id] = *at;
  }
  place_free();
}

/// What depends on inputs and parameters alone is computed where it is needed.
void Stages::place_free() {
  std::map<NodeId, std::set<StagePlace>> needed;
  const std::vector<NodeId>& nodes = graph_->body(body_).nodes;
  const auto need = [&](ValueId value, StagePlace at) {
    if (value && graph_->value(value).body == body_) needed[graph_->value(value).producer].insert(at);
  };
  const LoopOp& time = std::get<LoopOp>(graph_->node(graph_->body(body_).owner).op);
  const StagePlace last = StagePlace::at(pipeline_.loops.size());
  for (const LoopOp::Carry& carry : time.carries) need(carry.leaving, last);
  for (const LoopOp::Collect& collect : time.collects) need(collect.turn, last);
  std::map<NodeId, StagePlace> free;
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const Node& node = graph_->node(*at);
    const auto* loop = std::get_if<LoopOp>(&node.op);
    if (loop && is_divided(*loop)) {
      std::set<ValueId> initials;
      for (const LoopOp::Carry& carry : loop->carries) {
        initials.insert(carry.initial);
        need(carry.initial, StagePlace::at(number_of(*loop) + (loop->reverse ? 1 : 0)));
      }
      for_each_source(*graph_, node, [&](ValueId value) {
        if (!initials.contains(value)) need(value, {});
      });
      continue;
    }
    StagePlace place;
    if (const auto known = places_.find(*at); known != places_.end()) place = known->second;
    else if (const std::set<StagePlace>& where = needed[*at]; where.size() == 1) free[*at] = place = *where.begin();
    for_each_source(*graph_, node, [&](ValueId value) { need(value, place); });
  }
  places_.merge(free);
}

namespace {

/// The terms of a sum in a body, through additions that nobody else reads and whose terms lie at several stages.
void terms_of(const Graph& graph, const Stages& stages, ValueId sum, std::vector<ValueId>& terms) {
  const Node& node = graph.node(graph.value(sum).producer);
  if (stages.place(graph.value(sum).producer).kind != StagePlace::Kind::several || !is_addition(node.op))
    return terms.push_back(sum);
  for (const ValueId term : node.inputs) terms_of(graph, stages, term, terms);
}

class StageSums {
 public:
  StageSums(Graph& graph, const Stages& stages) : graph_(graph), stages_(stages) {}

  void run() {
    const NodeId id = graph_.body(stages_.body()).owner;
    const size_t carries = std::get<LoopOp>(graph_.node(id).op).carries.size();
    for (size_t i = 0; i < carries; ++i) separate(id, i);
    connect_loop(graph_.node(id));
  }

 private:
  void separate(NodeId id, size_t at) {
    LoopOp loop = std::get<LoopOp>(graph_.node(id).op);
    const LoopOp::Carry carry = loop.carries[at];
    if (!only_adds_up(graph_, loop, carry)) return;
    const NodeId last = graph_.value(carry.leaving).producer;
    std::vector<ValueId> terms;
    terms_of(graph_, stages_, graph_.node(last).inputs[1], terms);
    std::map<StagePlace, std::vector<ValueId>> by_place;
    for (const ValueId term : terms) by_place[stages_.place_of(term)].push_back(term);
    if (by_place.size() < 2) return;
    GraphBuilder inside = beside(graph_, graph_.node(last)), outside = inside;
    outside.body = graph_.root();
    std::vector<ValueId> totals;
    for (const auto& [place, own] : by_place) {
      const bool first = totals.empty();
      LoopOp::Carry made = carry;
      made.result = outside.argument(graph_.type(carry.result), graph_.root(), id);
      if (!first) made.entering = inside.argument(graph_.type(carry.entering), stages_.body(), id);
      ValueId sum = own.front();
      for (size_t i = 1; i < own.size(); ++i) sum = inside.add(sum, own[i]);
      made.leaving = inside.add(made.entering, sum);
      if (first) loop.carries[at] = made;
      else loop.carries.push_back(made);
      totals.push_back(made.result);
    }
    std::vector<NodeId>& nodes = graph_.body(stages_.body()).nodes;
    std::erase(nodes, last);
    graph_.node(id).op = loop;
    // The total is what the loop gave before: its readers stay as they are.
    std::vector<NodeId>& root = graph_.body(graph_.root()).nodes;
    const auto place = std::ranges::find(root, id) - root.begin() + 1;
    ValueId total = totals.front();
    for (size_t i = 1; i < totals.size(); ++i) total = outside.add(total, totals[i]);
    const NodeId sum = graph_.value(total).producer;
    graph_.node(sum).results = {carry.result};
    graph_.value(carry.result).producer = sum;
    const size_t added = totals.size() - 1;
    std::rotate(root.begin() + place, root.end() - static_cast<std::ptrdiff_t>(added), root.end());
  }

  Graph& graph_;
  const Stages& stages_;
};

}  // namespace

std::vector<ValueId> recompute_stages(Graph& graph, const Layout& layout) {
  if (!layout.pipeline.recomputes()) return {};
  const Stages stages(graph, layout);
  if (!stages) return {};
  return recompute_forward(graph, stages.body(), [&](const LoopOp& loop) { return stages.is_forward(loop); });
}

void separate_stage_sums(Graph& graph, const Layout& layout) {
  if (!layout.pipeline) return;
  const Graph before = graph;
  const Stages stages(before, layout);
  if (!stages) return;
  StageSums(graph, stages).run();
  remove_dead(graph);
}

namespace {

/// Whether a node outside of the divided loops has values of all turns, and does more with them than go over their
/// elements: a rank with several stages cannot do that stage by stage.
bool takes_turns_together(const Graph& graph, const Stages& stages, const Node& node,
                          const std::vector<PipelineLoop>& layers, DimId dim) {
  const auto has_turns = [&](ValueId value) { return has(graph.type(value).dims, dim); };
  const auto has_any = [&](ValueId value) {
    return std::ranges::any_of(layers, [&](const PipelineLoop& one) { return has(graph.type(value).dims, one.dim); });
  };
  if (std::ranges::none_of(node.inputs, has_turns) && std::ranges::none_of(node.results, has_turns)) return false;
  if (const auto* loop = std::get_if<LoopOp>(&node.op)) return !stages.is_divided(*loop);
  if (is_view(node.op))
    return !std::ranges::all_of(node.results, has_any);  // turns are still turns, or groups of these
  return !std::holds_alternative<MapOp>(node.op) && !std::holds_alternative<BroadcastOp>(node.op) &&
         !std::holds_alternative<RandomOp>(node.op);
}

/// What an op in a divided loop reads of turns that other stages may have.
struct OtherTurns {
  const Node* reader;
  DimId dim;
};

/// The first in a divided loop, or in loops inside of it: more than its turn of what stands outside, or any turn of
/// another divided loop.
std::optional<OtherTurns> reads_other_turns(const Graph& graph, const Stages& stages, const LoopOp& divided,
                                            BodyId body, std::set<ValueId>& made) {
  for (const NodeId id : graph.body(body).nodes) {
    const Node& node = graph.node(id);
    if (const auto* inner = std::get_if<LoopOp>(&node.op))
      if (const auto found = reads_other_turns(graph, stages, divided, inner->body, made)) return found;
    for (const ValueId input : node.inputs) {
      if (made.contains(input)) continue;
      if (!std::holds_alternative<LoopOp>(node.op) && has(graph.type(input).dims, divided.dim))
        return OtherTurns{&node, divided.dim};
      const BodyId from = graph.value(input).body;
      if (from != stages.body() && from != graph.root()) continue;
      if (const auto dim = stages.turns_of(input)) return OtherTurns{&node, *dim};
    }
    made.insert(node.results.begin(), node.results.end());
  }
  return std::nullopt;
}

/// The dim of a loop as the spec has it, where the graph has one over groups of its turns.
const Dim& dim_of_turns(const Graph& graph, DimId dim) {
  const auto of = std::ranges::find(graph.grouped, dim, &GroupedTurns::groups);
  return graph.dim(of == graph.grouped.end() ? dim : of->turns);
}

/// E0419 for the same. Whether there is none.
bool keeps_to_its_turns(const Graph& graph, const Stages& stages, const LoopOp& loop, const Layout& layout,
                        DiagnosticSink& sink) {
  std::set<ValueId> made;
  const std::optional<OtherTurns> found = reads_other_turns(graph, stages, loop, loop.body, made);
  if (!found) return true;
  const Dim &turns = dim_of_turns(graph, found->dim), &own = dim_of_turns(graph, loop.dim);
  auto report =
      sink.error("E0419", found->reader->span, "`{}` needs turns of `{}` that other stages of a pipeline have",
                 op_text(graph, found->reader->op), turns.name);
  report.here("of what is declared outside of `repeat {}` a stage has its own turns", turns.name)
      .label(layout.pipeline.span, "the pipeline");
  if (&turns == &own)
    report.help(fmt::format(
        "`x[{0} = position[{0}]]` is that of this turn; what all turns need has a dim of its own, `dim every = {1}`",
        turns.name, turns.size));
  else
    report.help(
        fmt::format("what `repeat {0}` carries goes on to `repeat {1}`: add up there what is needed of its turns, or "
                    "leave `{0}` out of the pipeline",
                    turns.name, own.name));
  return false;
}

}  // namespace

void check_stages(const Graph& graph, const Layout& layout, DiagnosticSink& sink) {
  if (!layout.pipeline) return;
  const Stages stages(graph, layout);
  const std::vector<PipelineLoop> layers = all_layers(graph, layout.pipeline);
  for (const NodeId id : stages ? graph.body(stages.body()).nodes : std::vector<NodeId>{}) {
    const Node& node = graph.node(id);
    const auto* loop = std::get_if<LoopOp>(&node.op);
    if (loop && layout.pipeline.loop_over(loop->dim) && !stages.is_divided(*loop)) {
      sink.error("E0419", node.span, "a second `repeat {}` in a pipeline over it", graph.dim(loop->dim).name)
          .label(layout.pipeline.span, "the pipeline")
          .help("write both loops as one, or give one of them a dim of its own");
      return;
    }
    if (loop && stages.is_divided(*loop) && !keeps_to_its_turns(graph, stages, *loop, layout, sink)) return;
    const auto together = std::ranges::find_if(layers, [&](const PipelineLoop& one) {
      return layout.pipeline.has_chunks() && takes_turns_together(graph, stages, node, layers, one.dim);
    });
    if (together != layers.end()) {
      const std::string& dim = graph.dim(together->dim).name;
      sink.error("E0901", node.span,
                 "`{}` of all turns of `{}` in a pipeline of several stages a rank is not built yet",
                 op_text(graph, node.op), dim)
          .here("outside of `repeat {}` its turns can only be gone over element by element", dim)
          .label(layout.pipeline.span, "the pipeline")
          .help(fmt::format("compute it inside `repeat {}`, or leave out `chunks`", dim));
      return;
    }
    if (stages.place(id).kind != StagePlace::Kind::several) continue;
    sink.error("E0419", node.span, "`{}` needs values of several stages of a pipeline", op_text(graph, node.op))
        .here("for each micro-batch they would have to be sent past the stages between them")
        .label(layout.pipeline.span, "the pipeline")
        .help("carry one of them through the loop: bind it before `repeat` and inside");
    return;
  }
}

}  // namespace mesh
