// clone.h: a second copy of a node in another body, loops with all that is in them: what computing something again
// needs.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include "codegen/graph/builder.h"
#include "codegen/graph/graph.h"

namespace mesh {

/// A copy of a node under construction: it may be asked for results, and for stacks of values inside, that the node
/// gained after it was copied.
class Clone {
 public:
  using Outer = std::function<ValueId(ValueId)>;

  /// Makes the copy for `build.body` and `build.part` without putting it into the body's list; span, scope and names
  /// are the node's. `outer` gives what stands for an operand from outside the node.
  Clone(GraphBuilder& build, NodeId of, const Outer& outer);
  Clone(const Clone&) = delete;
  Clone& operator=(const Clone&) = delete;

  NodeId node() const { return node_; }
  /// What stands for a result of the node.
  ValueId result(ValueId of);

 private:
  void copy_loop(GraphBuilder& build);
  void copy_inner(NodeId, Part);
  ValueId inner(ValueId);

  Graph& graph_;
  NodeId of_, node_;
  Outer outer_;
  BodyId body_;  // of a loop
  std::map<ValueId, ValueId> results_, values_;
  std::map<NodeId, std::unique_ptr<Clone>> nested_;  // loops inside, by the node they copy
};

}  // namespace mesh
