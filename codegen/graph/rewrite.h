// rewrite.h: what passes that change a graph share: replacing values, dropping what nobody needs, merging what is
// computed twice.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/builder.h"
#include "codegen/graph/graph.h"

namespace mesh {

/// Every use of a value, wherever the graph keeps one: nodes, loops, metrics, names, the objective, what is generated
/// from. `visit` may change it.
void for_each_use(Graph&, const std::function<void(ValueId&)>& visit);

/// The same of what reads a step's values besides nodes and names: metrics, wanted values, outputs, the objective.
void for_each_caller(Graph&, const std::function<void(ValueId&)>& visit);
/// The same of one node: its operands, of a loop also what its carries, slices and collects name.
void for_each_read(Node&, const std::function<void(ValueId&)>& visit);
/// The same without a change.
void for_each_read(const Node&, const std::function<void(ValueId)>& visit);
/// What a node reads of its own body, of a loop with all that is inside it.
void for_each_source(const Graph&, const Node&, const std::function<void(ValueId)>& visit);

/// What a value is made of: the inputs of its node, but of the values of a loop, for each by itself, what flows into
/// it.
std::vector<ValueId> sources_of(const Graph&, ValueId);

/// How often a value of a loop's body is read: in a turn, by loops within it with all that is inside them too, and to
/// hand it on or stack it.
int64_t reads_in(const Graph&, const LoopOp&, ValueId);

/// Whether a carry leaves each turn as it entered plus a contribution, and nothing else reads it as it entered.
bool only_adds_up(const Graph&, const LoopOp&, const LoopOp::Carry&);

/// The same of a carry that is no value of samples: those who have the turns among them may each add up their own.
bool adds_up_apart(const Graph&, const LoopOp&, const LoopOp::Carry&);

/// Whether a node is a loop whose turns make gradients. One that computes again what the forward pass did is none.
bool is_backward_loop(const Node&);

/// Appends nodes of the same body, part and place in the spec as a node.
GraphBuilder beside(Graph&, const Node&);

/// Sets a loop node's inputs and results from its carries, slices and collects.
void connect_loop(Node& loop);

/// Rebuilds all bodies node by node. `expand(builder, node)` returns the values that stand for the node's results after
/// appending nodes of its own, or nothing to keep the node as it is. The replaced values' names pass to their
/// replacements.
void expand_nodes(Graph&, const std::function<std::vector<ValueId>(GraphBuilder&, NodeId)>& expand);

/// Removes nodes, carries, slices and collects that neither an update, a metric, an output, a wanted value nor one of
/// `also_needed` needs.
/// Names of removed values go too.
void remove_dead(Graph&, std::span<const ValueId> also_needed = {});

/// Merges nodes of a body that compute the same from the same operands.
void merge_equal(Graph&);

/// What a node counts: a sum of a broadcast literal to one number.
std::optional<double> counted(const Graph&, const Node&);
/// Counts, which means divide by, become literals: all of them, or those within loops alone.
enum class Counts : uint8_t { all, in_loops };
void fold_counts(Graph&, Counts which = Counts::all);

}  // namespace mesh
