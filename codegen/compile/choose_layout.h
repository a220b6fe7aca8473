// choose_layout.h: the layout, the budget and the machine of a compilation.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "codegen/compile/compilation.h"

namespace mesh {

/// Layout, budget and machine of all entries: chosen once the dims of the first one are known, before anything is done
/// that a layout decides. What the layout leaves to `auto` is found here.
void choose_layout(Compilation&);

/// The ranks that manual regions have of each axis. What a program of one rank is compared with has the same.
std::function<std::map<std::string, int64_t>(const Graph&)> axes_of(const Compilation&);

}  // namespace mesh
