#include "codegen/layout/sharded_graph.h"

namespace mesh {

Layout::Layout() = default;
Layout::Layout(const Layout&) = default;
Layout::Layout(Layout&&) noexcept = default;
Layout& Layout::operator=(const Layout&) = default;
Layout& Layout::operator=(Layout&&) noexcept = default;
Layout::~Layout() = default;

ShardedGraph::ShardedGraph() = default;
ShardedGraph::ShardedGraph(const ShardedGraph&) = default;
ShardedGraph::ShardedGraph(ShardedGraph&&) noexcept = default;
ShardedGraph& ShardedGraph::operator=(const ShardedGraph&) = default;
ShardedGraph& ShardedGraph::operator=(ShardedGraph&&) noexcept = default;
ShardedGraph::~ShardedGraph() = default;

}  // namespace mesh
