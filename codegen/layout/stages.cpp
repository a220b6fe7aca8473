#include "codegen/layout/stages.h"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/cut.h"

namespace mesh {

namespace {

/// The loop over micro-batches, of all samples or of a replica's, that comes last: those before it make sums that it
/// needs.
NodeId main_loop(const Graph& graph, BodyId body) {
  NodeId found;
  for (const NodeId id : graph.body(body).nodes) {
    const auto* loop = std::get_if<LoopOp>(&graph.node(id).op);
    if (!loop) continue;
    const bool of_replicas = loop->dim == graph.replicas.turns;
    const NodeId time = of_replicas ? main_loop(graph, loop->body) : id;
    if (time && (of_replicas || loop->dim == graph.micro_batches.turns)) found = time;
  }
  return found;
}

}  // namespace

Stages::Stages(const Graph& graph, const Layout& layout)
    : graph_(&graph), pipeline_(layout.pipeline), home_(pipeline_.lists.rank_of_stage()) {
  if (!pipeline_ || !graph.micro_batches.turns) return;
  layers_ = all_layers(graph, pipeline_);
  if (const NodeId time = main_loop(graph, graph.root())) body_ = std::get<LoopOp>(graph.node(time).op).body;
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
  some.coordinates.erase(std::unique(some.coordinates.begin(), some.coordinates.end()), some.coordinates.end());
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

}  // namespace mesh
