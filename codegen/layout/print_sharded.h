// print_sharded.h: a sharded graph as text, for `meshc ir SPEC sharded`.
#pragma once
#include <string>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

std::string print_sharded(const ShardedGraph&);

}  // namespace mesh
