#include "codegen/gradient/sum_loops.h"

#include <algorithm>
#include <vector>

namespace mesh {

SumLoops::SumLoops(const Graph& graph, const SampleSums& sums) : graph_(graph), sums_(sums) {
  // As if every sum were complete right after the first loop that can compute it.
  for (NodeId id : graph.body(graph.root()).nodes) {
    const int loop = loops_[id] = known_before(id);
    if (sums.is_inside(id)) main_ = std::max(main_, loop);
    for (ValueId result : graph.node(id).results)
      known_[result] = loop + (sums.one_part() || sums.adds_up(result) == SampleKind::whole ? 0 : 1);
  }
  if (!sums.one_part()) find_early();
  number_nodes();
}

/// The first loop in which all that a node reads is known.
int SumLoops::known_before(NodeId id) const {
  int loop = 0;
  for (ValueId value : sums_.reads(id)) loop = std::max(loop, known_.at(value));
  return loop;
}

/// From what inside nodes read back to the sums that it is made of.
void SumLoops::find_early() {
  std::vector<ValueId> work;
  for (NodeId id : sums_.inside())
    for (ValueId value : sums_.reads(id)) work.push_back(value);
  std::set<ValueId> seen;
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    if (!seen.insert(value).second) continue;
    const bool is_sum = sums_.adds_up(value) != SampleKind::whole;
    if (is_sum) early_.insert(value);
    const NodeId producer = graph_.value(value).producer;
    if (sums_.is_inside(producer) && !is_sum) continue;
    for (ValueId read : sums_.reads(producer)) work.push_back(read);
  }
}

/// All other sums wait for the main loop, and so do nodes that read them.
void SumLoops::number_nodes() {
  for (NodeId id : graph_.body(graph_.root()).nodes) {
    const int loop = known_before(id);
    if (!sums_.is_inside(id)) loops_[id] = loop;
    for (ValueId result : graph_.node(id).results) {
      if (early_.contains(result)) known_[result] = loops_[id] + 1;
      // What every turn computes alike leaves the main loop with the last one.
      else if (sums_.adds_up(result) != SampleKind::whole ||
               (sums_.is_inside(id) && !has_samples(graph_, graph_.type(result))))
        known_[result] = main_ + 1;
      else known_[result] = loop;
    }
  }
}

}  // namespace mesh
