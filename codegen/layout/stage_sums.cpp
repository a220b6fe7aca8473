// stage_sums.cpp: what several stages add to a sum over micro-batches each carries for itself; what a stage recomputes.
#include <algorithm>
#include <map>

#include "codegen/gradient/recompute_forward.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/stages.h"

namespace mesh {

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
    outside.body = stages_.around();
    std::vector<ValueId> totals;
    for (const auto& [place, own] : by_place) {
      const bool first = totals.empty();
      LoopOp::Carry made = carry;
      made.result = outside.argument(graph_.type(carry.result), stages_.around(), id);
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
    std::vector<NodeId>& around = graph_.body(stages_.around()).nodes;
    const auto place = std::ranges::find(around, id) - around.begin() + 1;
    ValueId total = totals.front();
    for (size_t i = 1; i < totals.size(); ++i) total = outside.add(total, totals[i]);
    const NodeId sum = graph_.value(total).producer;
    graph_.node(sum).results = {carry.result};
    graph_.value(carry.result).producer = sum;
    const size_t added = totals.size() - 1;
    std::rotate(around.begin() + place, around.end() - static_cast<std::ptrdiff_t>(added), around.end());
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

}  // namespace mesh
