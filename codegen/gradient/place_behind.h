// place_behind.h: what passes share that make behind a loop, of all its turns at once, what each turn made.
#pragma once
#include <functional>

#include "codegen/graph/graph.h"

namespace mesh {

/// Has a loop stack a value of its turns, which it does not yet: what is behind it then, the loop's dim first.
ValueId stack_turns(Graph&, NodeId loop, ValueId turn);

/// The nodes that `append` appends to the body in which the loop stands are moved right behind the loop.
void place_behind(Graph&, NodeId loop, const std::function<void()>& append);

}  // namespace mesh
