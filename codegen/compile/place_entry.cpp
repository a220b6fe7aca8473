#include "codegen/check_limits.h"
#include "codegen/compile/passes.h"
#include "codegen/layout/costly_reshard.h"
#include "codegen/layout/lost_work.h"
#include "codegen/layout/owned_parameters.h"
#include "codegen/layout/predict.h"
#include "codegen/layout/split_moments.h"
#include "codegen/layout/stage_movements.h"
#include "codegen/layout/stages.h"

namespace mesh {
namespace {

/// Where that takes less time and the budget has nothing against it.
void split_moments(Compilation& c, const std::function<ShardedGraph()>& placed) {
  const std::vector<Rule> added = rules_for_moments(c.entry.sharded);
  if (added.empty()) return;
  std::vector<Rule>& rules = c.layout->rules;
  rules.insert(rules.end(), added.begin(), added.end());
  ShardedGraph split = placed();
  if (is_worth_splitting(split, c.entry.sharded) && allows_collectives(c.budget, split))
    c.entry.sharded = std::move(split);
  else rules.resize(rules.size() - added.size());
}

/// Which stage is the slowest, the times of turns say; whether a step is faster so, its prediction: stages also do what
/// the longest of them makes necessary.
void cut_where_faster(Compilation& c, const std::function<ShardedGraph()>& placed) {
  const std::optional<int64_t> memory = memory_of_rank(c.request, c.machine, c.layout->mesh);
  const Layout even = *c.layout;
  if (!cut_by_time(c.entry.sharded, memory, *c.layout, c.sink)) return;
  ShardedGraph timed = placed();
  if (predict(timed).seconds() < predict(c.entry.sharded).seconds() || !cut_fits(c.entry.sharded, memory))
    c.entry.sharded = std::move(timed);
  else c.layout = even;
}

}  // namespace

void place_graph(Compilation& c) {
  const Graph& graph = c.entry.graph;
  const std::shared_ptr<GraphFacts> facts = c.facts ? c.facts : facts_of(graph, c.layout->mesh, c.machine);
  const auto placed = [&] {
    Layout layout = for_groups(for_parts(*c.layout, graph), graph);
    if (c.entry.is_step()) layout.pipeline.owned = c.layout->pipeline.owned = owned_parameters(graph, layout);
    return place(facts, layout);
  };
  c.entry.sharded = placed();
  check_stage_movements(c.entry.sharded, c.sink);
  if (!c.entry.is_step() || c.sink.has_errors()) return;
  split_moments(c, placed);
  if (c.layout->pipeline.cut_by_time) cut_where_faster(c, placed);
}

void place_entry(Compilation& c) {
  place_graph(c);
  if (!c.entry.is_step() || c.sink.has_errors()) return;
  report_costly_reshards(c.entry.sharded, c.sink);
  report_lost_work(c.entry.sharded, c.sink);
  report_uneven_stages(c.entry.sharded, c.sink);
}

}  // namespace mesh
